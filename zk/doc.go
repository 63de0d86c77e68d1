// Package zk is the front end for ZooKeeper's clients: it serves their protocol on a port of its own, from the same
// sessions and the same tree as the client port (rules Z1 to Z10 of docs/zookeeper.md). The numbers N-, H-, W- in
// comments are rules of ZooKeeper's behaviour, which that page lists.
//
// # Who does what
//
// A connection has one goroutine while its client is active: the reader, which waits for the four bytes of a frame's
// length and holds no buffer. After a second without a request it parks the connection in the server's lot, and ends;
// the lot starts it again when something has come (Z10). The reader touches the session with each frame, and puts the
// request into the connection's line. Requests leave the line in their order and go to the node, which answers in the
// same order (G3). Those that the node does not order wait until they are alone. The writer is a goroutine that lives
// while there is something to send. It takes what the node tells in the order of stamps (G1), makes replies and events
// of it, and sends them while the session's promise is long enough (Z5).
package zk
