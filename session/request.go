package session

import "time"

// Request is asked of the leader on behalf of a client: one of its bodies is set. At a learner it crosses one node
// boundary, at the leader none.
type Request struct {
	// Seq names the request on its stream.
	Seq    uint64
	Open   *OpenRequest
	Resume *ResumeRequest
	Close  *Token
	Read   *ReadRequest
	Claim  *ClaimRequest
	// Upgrade is by the node of the session's id only.
	Upgrade *UpgradeRequest
}

// OpenRequest asks for a session.
type OpenRequest struct {
	RequestID RequestID
	// Timeout is the one wanted; the leader negotiates.
	Timeout time.Duration
	Labels  Labels
	// MS is the wall clock of the node that took the open, in milliseconds since [Epoch].
	MS uint64
	// Local asks for a session that the node alone knows. Such an open is never asked of the leader.
	Local bool
}

// ResumeRequest moves a session to the node that asks (M1).
type ResumeRequest struct {
	// Token names an attachment: the present one, unless Instance is the process that resumed the session last.
	Token Token
	// Instance is 64 random bits of the client process, Attempt counts its resumes of the session from 1.
	Instance, Attempt uint64
	// Seen is the highest index that the client has seen (N4). It is the node's business, and never asked of the
	// leader.
	Seen uint64
}

// ReadRequest asks for an index to read at (R4), and how long sessions have.
type ReadRequest struct{ Remaining []ID }

// Reply answers a [Request].
type Reply struct {
	Seq uint64
	// Term and Index are those of the entry that did it; after a read, and with [ErrExpired], Index is what to wait
	// for.
	Term, Index uint64
	// Session is set after an open, a resume and an upgrade, as of the entry.
	Session Session
	// Repeated is that of the [Result].
	Repeated bool
	// First is the first id of a claimed block.
	First ID
	// Remaining is in the order of the [ReadRequest]; negative for a session the tracker does not know.
	Remaining []time.Duration
	// Err is a domain error when the request was refused.
	Err error
}
