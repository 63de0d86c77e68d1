package wire

import (
	"errors"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// maxTry bounds the addresses of other nodes in a message.
const maxTry = 16

// addDrain adds the fields of a draining node's err to its detail.
func addDrain(d *holdfastv1.ErrorDetail, err error) {
	if draining, ok := errors.AsType[*session.DrainingError](err); ok &&
		d.GetReason() == holdfastv1.Reason_REASON_DRAINING {
		d.Try = tryFrom(draining.Try)
	}
	if refused, ok := errors.AsType[*session.DrainRefusedError](err); ok {
		d.Field, d.Limit = "node", refused.Why
	}
	if refused, ok := errors.AsType[*session.MemberRefusedError](err); ok {
		d.Field, d.Limit, d.Node = string(refused.Cause), refused.Why, uint32(refused.Node)
	}
}

// DrainingProto returns the notice that asks a client to move its sessions.
func DrainingProto(why *session.DrainingError) *holdfastv1.Draining {
	return &holdfastv1.Draining{Try: tryFrom(why.Try), DiskFull: why.DiskFull}
}

// tryFrom returns at most maxTry addresses.
func tryFrom(try []string) []string { return try[:min(len(try), maxTry)] }

// excludedFrom returns the members to which no client should go.
func excludedFrom(h *peerv1.Heartbeat) (a session.Excluded, err error) {
	if a.Unreachable, err = nodesFrom("heartbeat.unreachable", h.GetUnreachable()); err != nil {
		return session.Excluded{}, err
	}
	if a.Draining, err = nodesFrom("heartbeat.draining", h.GetDraining()); err != nil {
		return session.Excluded{}, err
	}
	if a.Full, err = nodesFrom("heartbeat.full_disks", h.GetFullDisks()); err != nil {
		return session.Excluded{}, err
	}
	return a, nil
}

func nodesProto(nodes []session.Node) []uint32 {
	var all []uint32
	for _, n := range nodes {
		all = append(all, uint32(n))
	}
	return all
}

func nodesFrom(field string, all []uint32) ([]session.Node, error) {
	if len(all) > int(session.MaxNode) {
		return nil, &session.FieldError{Field: field, Limit: "at most 254 nodes"}
	}
	var nodes []session.Node
	for _, raw := range all {
		n, err := NodeFrom(field, raw)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
