// Package namespace is a node's part in the tree: it serves the tree to the node's connections, and brings their writes
// to the leader (rules W1, W4, X7, X8 and G1 to G9 of docs/tree.md).
//
//	request --> Connection --> lane --------------------------------> answers and events --> Next
//	                            | writes, in their turn                     ^
//	                            v                                           | passes
//	                        queue of writes --> sender --> leader --> log --> Applied --> hub
//
// Package lane puts what connections are told in order, package writes keeps the writes until they are answered; both
// are pure. [Service] gives them goroutines, locks and the time. Lanes answer clients. The queue of writes decides what
// is sent when.
//
// Order of the locks: a lane's before that of the queue. The queue's owner calls nothing while it holds its lock.
package namespace
