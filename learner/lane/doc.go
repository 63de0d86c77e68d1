// Package lane puts what a node tells a connection in the order of its stamps: events, answers to reads and answers to
// writes (rules G1 to G6, G8, G9 and V5 to V7 of docs/tree.md).
//
// It has three parts:
//
//   - A [Hub] is told of all that the state applies. It keeps the rings of the node, and publishes the tree for lanes.
//   - A [Lane] serves some of the node's connections. In a pass it goes from the tree that it shows to the published
//     one: it fires watches, and puts the answers to its connections' writes between the events. Reads see the lane's
//     tree, never a newer one.
//   - A [Conn] holds what is unsent to a connection. Its writer takes from it.
//
// A Lane starts no goroutine and reads no clock. [Runner] gives it both.
package lane
