package entry

import (
	"cmp"

	"holdfast/fsm/codec"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

func checkClaim(c session.ClaimIDs) error {
	switch {
	case !c.Node.Valid():
		return codec.OutOfRange("node", "1 to 254")
	case c.MS > session.MaxMS:
		return codec.OutOfRange("ms", codec.MSLimit)
	}
	return session.CheckClaim(c.Count)
}

func checkConfigure(c session.Configure) error {
	if c.Level == 0 {
		return codec.OutOfRange("level", "not zero")
	}
	return cmp.Or(codec.CheckLevel(c.Level), c.Limits.Check())
}

func configureProto(c session.Configure) *logv1.Configure {
	return &logv1.Configure{
		ClusterKey: codec.KeyBytes(c.Key), Nonce: c.Nonce, Level: c.Level, Limits: codec.LimitsProto(c.Limits),
	}
}

func configureFrom(m *logv1.Configure) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	key, err := codec.KeyFrom(m.GetClusterKey())
	if err != nil {
		return nil, err
	}
	limits, err := codec.LimitsFrom(m.GetLimits())
	if err != nil {
		return nil, err
	}
	return session.Configure{Key: key, Nonce: m.GetNonce(), Level: m.GetLevel(), Limits: limits}, nil
}

func claimFrom(m *logv1.ClaimIDs) (session.Command, error) {
	if err := codec.NoUnknownFields(m); err != nil {
		return nil, err
	}
	node, err := codec.NodeFrom("node", m.GetNode())
	if err != nil {
		return nil, err
	}
	return session.ClaimIDs{Node: node, MS: m.GetMs(), Count: m.GetCount()}, nil
}
