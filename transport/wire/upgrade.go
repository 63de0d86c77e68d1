package wire

import (
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

func upgradeProto(r *session.UpgradeRequest) *peerv1.UpgradeRequest {
	return &peerv1.UpgradeRequest{
		SessionId: uint64(r.ID), Timeout: durationpb.New(r.Timeout), Labels: labelsProto(r.Labels),
		Ms:       int64(min(r.MS, math.MaxInt64)),
		Instance: r.Instance, Attempt: r.Attempt, SinceIndex: r.Since,
	}
}

func upgradeFrom(p *peerv1.UpgradeRequest) (*session.UpgradeRequest, error) {
	id, err := IDFrom("session_id", p.GetSessionId())
	if err != nil {
		return nil, err
	}
	timeout, err := DurationFrom("timeout", p.GetTimeout(), Positive)
	if err != nil {
		return nil, err
	}
	labels, err := labelsFrom(p.GetLabels())
	return &session.UpgradeRequest{
		ID: id, Timeout: timeout, Labels: labels, MS: uint64(max(p.GetMs(), 0)),
		Instance: p.GetInstance(), Attempt: p.GetAttempt(), Since: p.GetSinceIndex(),
	}, err
}
