// Package ids handles ids of 64 bits: Holdfast's session ids, ZooKeeper's session ids, and Twitter's snowflakes. It
// decodes and encodes ids ([Layout]), formats and parses them as text ([Form]), makes snowflakes ([Snowflake]), and
// shows a position in Raft's log the way ZooKeeper shows its transactions ([ZXID]).
//
// Only a cluster's state machine makes session ids, with [holdfast/session.NextID]; this package makes none.
// docs/ids.md says which ids can collide, how likely that is, and why session ids cannot.
package ids
