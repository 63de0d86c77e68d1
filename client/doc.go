// Package client is Holdfast's Go SDK. A [Client] keeps one connection to one node of a cluster for all of its sessions,
// keeps them alive, and moves with them to another node when the present one is lost, cut off or silent. A [Session]
// says until when the cluster promises not to expire it.
//
// One goroutine per client, the loop, owns the sessions, the requests and the connections; a connection has two more, one
// that receives and one that sends. Rule numbers in comments are those of docs/protocol.md.
package client
