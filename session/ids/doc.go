// Package ids is for ids of 64 bits: Holdfast's session ids, ZooKeeper's session ids, and Twitter's snowflakes. It
// takes ids apart and puts them together ([Layout]), writes and reads them as text ([Form]), makes snowflakes
// ([Snowflake]), and shows a place in Raft's log the way ZooKeeper shows its transactions ([ZXID]).
//
// Only a cluster's state machine makes session ids, with [holdfast/session.NextID]; this package makes none.
// docs/ids.md says which ids can collide, how likely that is, and why session ids cannot.
package ids
