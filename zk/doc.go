// Package zk serves ZooKeeper's clients on a port of its own, from the same sessions and the same tree as the client
// port (rules Z1 to Z10 of docs/zookeeper.md). Numbers with a hyphen in comments, such as N-16, are
// properties of ZooKeeper.
//
// # The path of a request
//
//   - frames reads the request's frame. idle keeps the connection of a client that sends nothing.
//   - zk touches the session with each frame (reader.go).
//   - operations makes a request of the frame: what to ask the node, and the reply to make of the node's answer.
//   - queue hands the request to the node when its turn has come, together with others as far as their order allows.
//   - writer takes answers and events from the node in the order of stamps (G1 order per connection), has
//     queue and operations make the reply, and sends it while the session's promise is long enough (Z5 disconnected
//     before expired).
//
// A connection has one goroutine while its client is active, the reader. After a second without a request the reader
// parks the connection and ends (Z10 idle connections). The writer's goroutine runs while there is something to send.
package zk
