package wire

import (
	"math"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

func upgradeProto(r *session.UpgradeRequest) *peerv1.UpgradeRequest {
	p := &peerv1.UpgradeRequest{
		SessionId: uint64(r.ID), Ms: int64(min(r.MS, math.MaxInt64)),
		Instance: r.Instance, Attempt: r.Attempt, SinceIndex: r.Since,
	}
	p.Timeout, p.Labels = peerSpecProto(&r.Spec)
	return p
}

func upgradeFrom(p *peerv1.UpgradeRequest) (*session.UpgradeRequest, error) {
	id, err := IDFrom("session_id", p.GetSessionId())
	if err != nil {
		return nil, err
	}
	spec, err := peerSpecFrom(p)
	return &session.UpgradeRequest{
		ID: id, Spec: spec, MS: uint64(max(p.GetMs(), 0)),
		Instance: p.GetInstance(), Attempt: p.GetAttempt(), Since: p.GetSinceIndex(),
	}, err
}
