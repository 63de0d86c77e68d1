package entry

import (
	"time"

	"holdfast/fsm/codec"
	pb "holdfast/proto/fields"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

func checkOpen(c session.OpenSession) error {
	switch {
	case !c.Node.Valid():
		return codec.OutOfRange("node", "1 to 254")
	case c.MS > session.MaxMS:
		return codec.OutOfRange("ms", codec.MSLimit)
	case c.Timeout <= 0 || c.Timeout > session.MaxTimeout || c.Timeout%time.Millisecond != 0:
		return codec.OutOfRange("timeout", timeoutLimit)
	case c.RequestID == session.RequestID{}:
		// All clients that forget to set a request id would share a session.
		return codec.OutOfRange("request_id", "16 bytes that are not all zero")
	}
	return c.CheckSpec()
}

func checkUpgrade(c session.UpgradeSession) error {
	switch {
	case !c.ID.Node().Valid():
		return codec.OutOfRange("session_id", "an id of a node, 1 to 254")
	case c.MS > session.MaxMS:
		return codec.OutOfRange("ms", codec.MSLimit)
	case c.Timeout <= 0 || c.Timeout > session.MaxTimeout || c.Timeout%time.Millisecond != 0:
		return codec.OutOfRange("timeout", timeoutLimit)
	}
	return c.CheckSpec()
}

func openProto(c session.OpenSession) *logv1.OpenSession {
	m := &logv1.OpenSession{Node: uint32(c.Node), Ms: c.MS, RequestId: c.RequestID[:], Instance: c.Instance}
	m.TimeoutMs, m.Labels = codec.SpecProto(&c.Spec)
	return m
}

func upgradeProto(c session.UpgradeSession) *logv1.UpgradeSession {
	m := &logv1.UpgradeSession{
		Id: uint64(c.ID), Ms: c.MS, Instance: c.Instance, Attempt: c.Attempt, SinceIndex: c.Since,
	}
	m.TimeoutMs, m.Labels = codec.SpecProto(&c.Spec)
	return m
}

func openFrom(m *logv1.OpenSession) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	node, err := codec.NodeFrom("node", m.GetNode())
	if err != nil {
		return nil, err
	}
	spec, err := codec.SpecFrom(m)
	if err != nil {
		return nil, err
	}
	request, err := codec.RequestIDFrom(m.GetRequestId())
	if err != nil {
		return nil, err
	}
	return session.OpenSession{
		Node: node, MS: m.GetMs(), Spec: spec, RequestID: request, Instance: m.GetInstance(),
	}, nil
}

func upgradeFrom(m *logv1.UpgradeSession) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	spec, err := codec.SpecFrom(m)
	if err != nil {
		return nil, err
	}
	return session.UpgradeSession{
		ID: session.ID(m.GetId()), Spec: spec, MS: m.GetMs(),
		Instance: m.GetInstance(), Attempt: m.GetAttempt(), Since: m.GetSinceIndex(),
	}, nil
}

func quickEncodeOpen(c session.OpenSession) ([]byte, bool) {
	if !c.OnlyTimeout() {
		return nil, false
	}
	b, whole := pb.Begin(make([]byte, 0, 57), commandsField)
	b, at := pb.Begin(b, openField)
	b = pb.Varint(b, 1, uint64(c.Node))
	b = pb.Varint(b, 2, c.MS)
	b = pb.Varint(b, 3, uint64(c.Timeout.Milliseconds()))
	b = pb.Bytes(b, 5, c.RequestID[:])
	b = pb.Fixed64(b, 6, c.Instance)
	return pb.End(pb.End(b, at), whole), true
}

func quickDecodeOpen(r *pb.Reader) (session.OpenSession, bool) {
	node := r.Varint(1)
	c := session.OpenSession{Node: session.Node(node), MS: r.Varint(2)}
	c.Timeout = codec.DurationOf(r.Uint32(3))
	id, _ := r.Bytes(5)
	copy(c.RequestID[:], id)
	c.Instance = r.Fixed64(6)
	return c, r.End() && node == uint64(c.Node) && len(id) == len(c.RequestID)
}

const timeoutLimit = "whole milliseconds, 1 ms to 24h"
