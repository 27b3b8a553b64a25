// The Go client 2.x consumes what it sends, and says what came, as cpp_client.py does.
//
//	foreign NAMESRV TOPIC GROUP COUNT push|orderly
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// After so long without the last message it gives up.
const wait = 60 * time.Second

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func send(names []string, topic, group string, count int) {
	sender, err := rocketmq.NewProducer(
		producer.WithGroupName(group+"-P"), producer.WithNameServer(names), producer.WithInstanceName("sender"))
	check(err)
	check(sender.Start())
	for number := 0; number < count; number++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("m%03d", number)))
		_, err := sender.SendSync(context.Background(), message.WithTag("TagA"))
		check(err)
	}
	check(sender.Shutdown())
}

func main() {
	rlog.SetLogLevel("error")
	names, topic, group := []string{os.Args[1]}, os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	var lock sync.Mutex
	got, enough := map[string]bool{}, make(chan bool, 1)
	taker, err := rocketmq.NewPushConsumer(
		consumer.WithGroupName(group), consumer.WithNameServer(names), consumer.WithInstance("taker"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(os.Args[5] == "orderly"))
	check(err)
	check(taker.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagB"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			lock.Lock()
			defer lock.Unlock()
			for _, message := range messages {
				fmt.Println(message.Queue.QueueId, string(message.Body))
				got[string(message.Body)] = true
			}
			if len(got) == count {
				enough <- true
			}
			return consumer.ConsumeSuccess, nil
		}))
	send(names, topic, group, count) // before it consumes: a new group begins at the end of a queue that is empty
	check(taker.Start())
	select {
	case <-enough:
	case <-time.After(wait):
	}
	check(taker.Shutdown())
}
