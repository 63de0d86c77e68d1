// Package operations serves the operations of ZooKeeper's clients: it makes a [queue.Request] of each frame, which
// asks the node's tree and makes the reply.
//
// The table in table.go has one row for each operation: how to read its record, the request to the tree, and the record
// of its reply. To add an operation, add its name to zk/jute/op.go, its record to zk/jute/records.go if it has a new
// one, and its row to the table.
package operations
