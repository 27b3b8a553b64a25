"""The broker and the name server: `node` puts a broker together without trio, `broker` runs both on sockets."""
