package wire

import (
	"errors"

	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// StateProto returns s in protocol buffers.
func StateProto(s session.NodeState) *holdfastv1.NodeState {
	return &holdfastv1.NodeState{
		Node: uint32(s.Node), Mode: ModeProto(s.Mode), Index: s.Index, MaxBatch: session.MaxBatch,
		Draining: s.Draining, Cluster: s.Cluster,
	}
}

// StateFrom returns the state in p; the zero value for none.
func StateFrom(p *holdfastv1.NodeState) session.NodeState {
	n, err := NodeFrom("state.node", p.GetNode())
	if err != nil {
		return session.NodeState{}
	}
	return session.NodeState{
		Node: n, Mode: ModeFrom(p.GetMode()), Index: p.GetIndex(), Draining: p.GetDraining(),
		Cluster: p.GetCluster(),
	}
}

// ModeProto returns a node's mode.
func ModeProto(m session.Mode) holdfastv1.Mode {
	switch m {
	case session.ModeReadWrite:
		return holdfastv1.Mode_MODE_READ_WRITE
	case session.ModeReadOnly:
		return holdfastv1.Mode_MODE_READ_ONLY
	case session.ModeNoLeader:
		return holdfastv1.Mode_MODE_NO_LEADER
	default:
		return holdfastv1.Mode_MODE_UNSPECIFIED
	}
}

// ModeFrom returns the mode in p; 0 for an unknown mode.
func ModeFrom(p holdfastv1.Mode) session.Mode {
	switch p {
	case holdfastv1.Mode_MODE_READ_WRITE:
		return session.ModeReadWrite
	case holdfastv1.Mode_MODE_READ_ONLY:
		return session.ModeReadOnly
	case holdfastv1.Mode_MODE_NO_LEADER:
		return session.ModeNoLeader
	case holdfastv1.Mode_MODE_UNSPECIFIED:
		return 0
	default:
		return 0
	}
}

// FromApplied reports whether err is a read-only node's answer from its applied state (N3 stale reads).
func FromApplied(err error) bool {
	_, applied := errors.AsType[*session.AppliedError](err)
	return applied
}

// WithState adds the state of the node to the detail of a status error. A status without a detail does not come from a
// domain error, and gets a detail without a reason.
func WithState(err error, state *holdfastv1.NodeState) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	detail := &holdfastv1.ErrorDetail{}
	for _, d := range st.Details() {
		if is, ok := d.(*holdfastv1.ErrorDetail); ok {
			detail = is
		}
	}
	detail.State = state
	with, detailErr := status.New(st.Code(), st.Message()).WithDetails(detail)
	if detailErr != nil { // impossible, as in Status
		return err
	}
	return with.Err()
}

// StateOf returns the node's state from an error of a unary call; the zero value for none. err must be the error as
// gRPC returned it, before [Domain].
func StateOf(err error) session.NodeState {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return session.NodeState{}
	}
	for _, d := range st.Details() {
		if detail, is := d.(*holdfastv1.ErrorDetail); is && detail.GetState() != nil {
			return StateFrom(detail.GetState())
		}
	}
	return session.NodeState{}
}
