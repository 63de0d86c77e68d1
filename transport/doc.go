// Package transport holds the packages that carry Holdfast's vocabulary between processes:
//
//	wire        conversion, validation and errors: the vocabulary in protocol buffers and back
//	dial        the connections that clients and learners open; links no server part
//	gate        budgets: how many requests clients may make in a second
//	port        what both gRPC ports have in common: bounds on what clients make a node hold, the orderly end
//	clientport  the services of the client port
//	peerport    the streams of learners
//	raftnet     Raft's stream layer
package transport
