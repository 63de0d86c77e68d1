package core

import (
	"time"

	"holdfast/client/internal/route"
)

// How silence is noticed. A touch sent at k is answered at once, and promises safety for p from k: about T less the time
// to the touch before. The node promises more once the leader has confirmed the touch: T - T/100, less one heartbeat
// interval at most (S3). Two other nodes are to be given T/4 each (tryPart) before k + p, so the node is left by
// k + p - T/2. It is left because a touch that was due has not been answered for T/12. So that touch is due at
// p - T/2 - T/12 after k; no later than T/3, which with the T/12 makes 5/12 T; and no sooner than T/4, lest sessions with
// little promised are touched without end, and because T/4 leaves time for the confirmation:
//
//	p              next touch    node is left    until the promise ends
//	0.99 T         T/3           5/12 T          0.57 T: two nodes and more
//	5/6 T          T/4           T/3             T/2: two nodes
//	2/3 T          T/4           T/3             T/3: one node
//	1/2 T          T/4           T/3             T/6
//
// Sessions with p below T/3 + T/12 are left T/12 before the end. Whatever was promised, the session does not expire
// before k + T, which leaves room for two nodes after k + 5/12 T in any case: 5/12 + 2/4 = 11/12 (C-07 and K-20 leave
// ZooKeeper's clients one third).
//
// A touch costs three messages with its confirmation. A node that told it with the answer to the next touch could be
// touched every T/5 only, which cost ten messages in a timeout: three in T/3 are nine.
const (
	TouchPart    = 3  // of T: the longest wait for the next touch
	minTouchPart = 4  // of T: the shortest
	answerPart   = 12 // of T: how long a touch may go unanswered
	lostPart     = 3  // of T: how long a node is stayed at that promises nothing, or that is the best there is
)

// touchIn returns how long after the sending of an answered touch the next one is due.
func touchIn(safeFor, timeout time.Duration) time.Duration {
	wait := safeFor - 2*(timeout/tryPart) - timeout/answerPart
	return min(max(wait, timeout/minTouchPart), timeout/TouchPart)
}

// renewBy returns when the client leaves a node that has not renewed a promise: when the touch that should renew it has
// had its time to be answered, and some time before the promise ends in any case.
func renewBy(sent time.Time, safeFor, timeout time.Duration, until time.Time) time.Time {
	by := sent.Add(touchIn(safeFor, timeout) + timeout/answerPart)
	return route.Earliest(by, until.Add(-timeout/answerPart))
}
