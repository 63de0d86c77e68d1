package session

import "time"

// UpgradeSession makes a local session global: the same id and timeout, a new attachment, owned by the node of its id
// (L7). A session that is global already is answered with what it is, and nothing changes.
type UpgradeSession struct {
	ID      ID
	Timeout time.Duration
	Labels  Labels
	// MS is when it was opened, in milliseconds since [Epoch].
	MS uint64
	// Instance and Attempt are those of its newest resume, both 0 when there was none (M1).
	Instance, Attempt uint64
	// Since is an index that its node had applied before it asked for the first time. It is refused with [ErrExpired]
	// when a session that became global after Since may have ended and be forgotten.
	Since uint64
}

func (UpgradeSession) command() {}

// UpgradeRequest asks for the upgrade of a session of the node that asks. Fields are those of [UpgradeSession].
type UpgradeRequest UpgradeSession
