// Package tree serves the tree to a node's connections, and sends their writes to the leader (rules W1, W4, X7, X8 and
// G1 to G9 of docs/tree.md).
//
//	request --> Connection --> session queue (dispatch) ------------> event queue (dispatch.Conn) --> Next
//	                             | writes, in their turn                ^
//	                             v                                      | passes of a dispatcher
//	                           pending table --> leader --> log --> Applied --> results ring (dispatch.Hub)
//
// A write waits in six places. What would break without each:
//
//	upgrade wait   request.go       a write of a local session would reach the log before the session does (U4, upgrade
//	                                by the first write)
//	session queue  tree/dispatch    an answer would come before an earlier one of its session, a read would miss an
//	                                earlier write (G3), and no table would say which request wrote under which number
//	pending table  tree/pending     a write whose copy is lost with a stream, a leader or a snapshot would never be
//	                                answered (X7), and one connection could fill the way to the leader (W9)
//	proposer       fsm/proposer     each write would need a log entry of its own, and one node could fill the log (W9)
//	results ring   tree/dispatch    the goroutine that applies the log would wait for the dispatchers (D8, roots cost
//	                                nothing)
//	event queue    tree/dispatch    a client that reads slowly would stop all others of its dispatcher (G9 answer
//	                                bounds), and an answer could overtake the event that it shows (G1 order per
//	                                connection)
//
// The stream to the leader pulls writes from the pending table ([Service.Next]), so no write waits between the two:
// until a stream can send a write, the write keeps its turn among the connections, and the table knows which writes
// were sent. The port's writer pulls from the event queue in the same way ([Connection.Next]). The leader's end of the
// stream (leader/forwarding.go) queues only refusals. Opens, resumes and closes wait for their index in the learner's
// apply queue; a write does not, because its dispatcher answers it in the order of the log.
//
// The packages dispatch and pending are pure. [Service] supplies goroutines, locks and the time. Dispatchers answer
// clients. The pending table decides which write is sent when.
//
// Locks, in this order: Connection.order, the lock of a dispatcher, the lock of the pending table. The owner of the
// pending table makes no calls while it holds its lock.
package tree
