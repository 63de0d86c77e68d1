// Package transport is the house of what carries Holdfast's vocabulary between processes. Its rooms are packages:
//
//	wire        conversion, validation and errors: the vocabulary in protocol buffers and back
//	dial        the connections that clients and learners open; links no server part
//	gate        budgets: what clients may make a node do in a second
//	port        what both gRPC ports have in common: bounds of what a client may make a node hold, the orderly end
//	clientport  the services of the client port
//	peerport    the streams of learners
//	raftnet     Raft's stream layer
package transport
