// Package ids takes ids of 64 bits apart and puts them together: Holdfast's own session ids, ZooKeeper's and Twitter's
// snowflakes ([Layout]); writes and reads them as text ([Form]); makes snowflakes ([Snowflake]); and shows a place in
// Raft's log the way ZooKeeper shows its transactions ([ZXID]).
//
// The session ids of a cluster are made by its state machine, with [holdfast/session.NextID]: nothing here can make
// one. docs/ids.md says which ids can collide, how likely that is, and why those cannot.
package ids
