"""What a server or a client does, judged from outside: `suite` asks servers, `captures` keeps and replays what stock clients
said, `torture` torments clients, `controls` makes a good server bad and sees that the suite notices.

Each folder's first lines say how to add to it.  `subjects` are the servers that are asked, `truth` is what the Java jars
declare, `golden` what the real servers wrote and said, `reports` what came of the last runs.
"""
