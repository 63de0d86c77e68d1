package session

import (
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
)

// How a client notices silence. A node answers a touch that was sent at k at once, and promises safety for p from k:
// about T less the time to the touch before. The node promises more once the leader has confirmed the touch: T - T/100,
// less one heartbeat interval at most (S3 length of a promise).
//
// Two other nodes should get T/4 each (conn.TryPart) before k + p, so the client leaves the node by k + p - T/2. It
// leaves when a due touch has not been answered for T/12. So the touch is due p - T/2 - T/12 after k. It is due after
// T/3 at the latest, which with the T/12 makes 5/12 T. It is due after T/4 at the earliest, because the client would
// otherwise touch sessions with short promises without end, and because T/4 leaves time for the confirmation:
//
//	p              next touch    node is left    until the promise ends
//	0.99 T         T/3           5/12 T          0.57 T: two nodes and more
//	5/6 T          T/4           T/3             T/2: two nodes
//	2/3 T          T/4           T/3             T/3: one node
//	1/2 T          T/4           T/3             T/6
//
// The client leaves T/12 before the end if p is below T/3 + T/12. Whatever was promised, the session does not expire
// before k + T, which leaves time for two nodes after k + 5/12 T in any case: 5/12 + 2/4 = 11/12 (C-07 and K-20 leave
// ZooKeeper's clients one third).
//
// A touch costs three messages with its confirmation. If the confirmation came with the answer to the next touch, the
// client would have to touch every T/5, which costs ten messages in a timeout: three touches in T/3 cost nine.
const (
	TouchPart    = 3  // of T: the longest wait for the next touch
	minTouchPart = 4  // of T: the shortest wait
	answerPart   = 12 // of T: how long a touch may go unanswered
	lostPart     = 3  // of T: how long the client stays at a node that promises nothing, or that is the best one
)

// touchIn returns how long after the send of an answered touch the next touch is due.
func touchIn(safeFor, timeout time.Duration) time.Duration {
	wait := safeFor - 2*(timeout/conn.TryPart) - timeout/answerPart
	return min(max(wait, timeout/minTouchPart), timeout/TouchPart)
}

// renewBy returns when the client leaves a node that has not renewed a promise: when the answer to the next touch is
// overdue, and T/12 before the promise ends at the latest.
func renewBy(sent time.Time, safeFor, timeout time.Duration, until time.Time) time.Time {
	by := sent.Add(touchIn(safeFor, timeout) + timeout/answerPart)
	return route.Earliest(by, until.Add(-timeout/answerPart))
}
