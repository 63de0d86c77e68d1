// Package transport holds the packages that carry Holdfast's vocabulary between processes:
//
//	wire        conversion, validation and errors: the vocabulary in protocol buffers and back
//	dial        the connections that clients and learners open; links no server part
//	secure      TLS of all ports: certificates, their reload, and the identities that they name
//	ratelimit   budgets: how many requests clients may make in a second
//	authz       which calls a caller's roles permit; audits the requests of operators
//	census      the connections of clients on all ports
//	port        what both gRPC ports have in common: bounds on what clients make a node hold, the orderly end
//	clientport  the services of the client port
//	peerport    the streams of learners
//	raftnet     Raft's stream layer
//	tracing     spans of opens, moves, closes, writes and expiries
package transport
