// Package dispatch delivers to each connection its events and answers in the order of their stamps (rules G1 to G6, G8
// and G9, order and reads, and V5 to V7, watches, of docs/tree.md).
//
//   - A [Hub] records what the state applies. It keeps the rings of the node, and publishes the tree.
//   - A [Dispatcher] serves some of the node's connections. In a pass it goes from the tree that it shows to the
//     published one: it fires watches, and puts the answers to its connections' writes between the events. Reads see
//     the dispatcher's tree, never a newer one.
//   - A session queue holds the requests of a session in order. A request leaves it when it is answered.
//   - A [Conn] holds the event queue of a connection: items that the connection's writer has not sent yet.
//
// The table of package pending sends writes, and sends them again; a session queue only knows which request wrote under
// which number. A Dispatcher starts no goroutine and reads no clock: [Runner] supplies both.
package dispatch
