package fsm

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
)

// noUnknownFields returns an error when m has fields of a newer release. Dropping them would drop their meaning.
func noUnknownFields(m proto.Message) error {
	unknown := m.ProtoReflect().GetUnknown()
	if len(unknown) == 0 {
		return nil
	}
	number, _, n := protowire.ConsumeTag(unknown)
	if n < 0 {
		return fmt.Errorf("a field is %w", errUnknown)
	}
	return fmt.Errorf("field %d is %w", number, errUnknown)
}

func commandProto(c session.Command) *logv1.Command {
	switch c := c.(type) {
	case session.OpenSession:
		return &logv1.Command{Command: &logv1.Command_OpenSession{OpenSession: &logv1.OpenSession{
			Node: uint32(c.Node), Ms: c.MS, TimeoutMs: uint32(c.Timeout.Milliseconds()),
			Labels: labelsProto(c.Labels), RequestId: c.RequestID[:], Instance: c.Instance,
		}}}
	case session.MoveSession:
		return &logv1.Command{Command: &logv1.Command_MoveSession{MoveSession: &logv1.MoveSession{
			Id: uint64(c.ID), Owner: uint32(c.NewOwner), Instance: c.Instance, Attempt: c.Attempt,
			Named: c.Named, NamedLocal: c.NamedLocal,
		}}}
	case session.MoveSessions:
		return &logv1.Command{Command: &logv1.Command_MoveSessions{MoveSessions: movesProto(c)}}
	case session.CloseSessions:
		return &logv1.Command{Command: &logv1.Command_CloseSessions{CloseSessions: closeProto(c)}}
	case session.ForgetRequests:
		return &logv1.Command{Command: &logv1.Command_ForgetRequests{ForgetRequests: &logv1.ForgetRequests{
			UpToIndex: c.UpToIndex,
		}}}
	case session.Configure:
		return &logv1.Command{Command: &logv1.Command_Configure{Configure: &logv1.Configure{
			ClusterKey: keyBytes(c.Key), Nonce: c.Nonce, Level: c.Level, Limits: limitsProto(c.Limits),
		}}}
	case session.SetCapacity:
		return &logv1.Command{Command: &logv1.Command_SetCapacity{SetCapacity: &logv1.SetCapacity{
			MaxSessions: c.Capacity.MaxSessions, MaxStateBytes: c.Capacity.MaxBytes,
		}}}
	case session.UpgradeSession:
		return &logv1.Command{Command: &logv1.Command_UpgradeSession{UpgradeSession: upgradeProto(c)}}
	case session.ClaimIDs:
		return &logv1.Command{Command: &logv1.Command_ClaimIds{ClaimIds: &logv1.ClaimIDs{
			Node: uint32(c.Node), Ms: c.MS, Count: c.Count,
		}}}
	case session.FreezeExpiry:
		return &logv1.Command{Command: &logv1.Command_FreezeExpiry{FreezeExpiry: freezeProto(c)}}
	case session.ThawExpiry:
		return &logv1.Command{Command: &logv1.Command_ThawExpiry{ThawExpiry: &logv1.ThawExpiry{}}}
	case session.ExtendSession:
		return &logv1.Command{Command: &logv1.Command_ExtendSession{ExtendSession: extendProto(c)}}
	default:
		panic(fmt.Sprintf("fsm: command %T passed its check and cannot be encoded", c))
	}
}

// treeCommandOf returns one of the tree's commands, in the form of package tree/form, which says what is wrong with it.
func treeCommandOf(of *logv1.Command) (session.Command, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("reading a command of the tree: %w", err)
	}
	return treeCommandFrom(b)
}

func limitsProto(l tree.Limits) *logv1.TreeLimits {
	return &logv1.TreeLimits{
		MaxEphemerals: uint64(l.Ephemerals), MaxChildren: uint64(l.Children), OpenQuotas: l.OpenQuotas,
		MaxBytes: uint64(l.Bytes), //nolint:gosec // positive
	}
}

func limitsFrom(m *logv1.TreeLimits) (tree.Limits, error) {
	if m == nil {
		return tree.Limits{}, outOfRange("limits", "those of the tree")
	}
	if err := noUnknownFields(m); err != nil {
		return tree.Limits{}, fmt.Errorf("limits: %w", err)
	}
	l := tree.Limits{
		Ephemerals: int(min(m.GetMaxEphemerals(), math.MaxInt32)), Children: int(min(m.GetMaxChildren(), math.MaxInt32)),
		OpenQuotas: m.GetOpenQuotas(), Bytes: int64(min(m.GetMaxBytes(), math.MaxInt64)),
	}
	return l, l.Check()
}

func movesProto(c session.MoveSessions) *logv1.MoveSessions {
	n := len(c.Sessions)
	columns := make([]uint64, 3*n)
	m := &logv1.MoveSessions{
		Owner: uint32(c.NewOwner), Instance: c.Instance,
		Ids: columns[:n:n], Attempts: columns[n : 2*n : 2*n], Named: columns[2*n:],
	}
	for i, s := range c.Sessions {
		m.Ids[i], m.Attempts[i], m.Named[i] = uint64(s.ID), s.Attempt, s.Named
	}
	return m
}

func closeProto(c session.CloseSessions) *logv1.CloseSessions {
	m := &logv1.CloseSessions{
		Term: c.Term, Cause: logv1.Cause(c.Cause), CreditedMs: packCredited(c.Credited), Ms: c.MS,
		Sessions: make([]*logv1.Closing, len(c.Sessions)), By: c.By, Why: c.Why,
	}
	for i, s := range c.Sessions {
		m.Sessions[i] = &logv1.Closing{
			Id: uint64(s.ID), Attachment: s.Attachment, LastTouchAgeMsPlus_1: packAge(s.LastTouchAge),
			LateMs: packSpan(s.Late), CreditMs: packSpan(s.Credit), SilentMs: packSpan(s.Silent),
		}
	}
	return m
}

func upgradeProto(c session.UpgradeSession) *logv1.UpgradeSession {
	return &logv1.UpgradeSession{
		Id: uint64(c.ID), TimeoutMs: uint32(c.Timeout.Milliseconds()), Labels: labelsProto(c.Labels), Ms: c.MS,
		Instance: c.Instance, Attempt: c.Attempt, SinceIndex: c.Since,
	}
}

func labelsProto(labels session.Labels) []*logv1.Label {
	if len(labels) == 0 {
		return nil
	}
	m := make([]*logv1.Label, len(labels))
	for i, l := range labels {
		m[i] = &logv1.Label{Key: l.Key, Value: l.Value}
	}
	return m
}

// keyBytes returns the bytes of k, nil when k is zero, which is no key.
func keyBytes(k session.Key) []byte {
	if k == (session.Key{}) {
		return nil
	}
	return k[:]
}

func keyFrom(b []byte) (session.Key, error) {
	var k session.Key
	if len(b) == 0 {
		return k, nil
	}
	if copy(k[:], b) != len(b) || len(b) != len(k) || k == (session.Key{}) {
		return k, outOfRange("cluster_key", fmt.Sprintf("absent or %d bytes that are not all zero", len(k)))
	}
	return k, nil
}

func commandFrom(of *logv1.Command) (session.Command, error) {
	if err := noUnknownFields(of); err != nil {
		return nil, err
	}
	var (
		c    session.Command
		err  error
		name string
	)
	switch m := of.GetCommand().(type) {
	case *logv1.Command_OpenSession:
		name = "open_session"
		c, err = openFrom(m.OpenSession)
	case *logv1.Command_MoveSession:
		name = "move_session"
		c, err = moveFrom(m.MoveSession)
	case *logv1.Command_MoveSessions:
		name = "move_sessions"
		c, err = movesFrom(m.MoveSessions)
	case *logv1.Command_CloseSessions:
		name = "close_sessions"
		c, err = closeFrom(m.CloseSessions)
	case *logv1.Command_ClaimIds:
		name = "claim_ids"
		c, err = claimFrom(m.ClaimIds)
	case *logv1.Command_UpgradeSession:
		name = "upgrade_session"
		c, err = upgradeFrom(m.UpgradeSession)
	case *logv1.Command_Write, *logv1.Command_Void, *logv1.Command_Acknowledge, *logv1.Command_Reap:
		return treeCommandOf(of)
	case *logv1.Command_FreezeExpiry, *logv1.Command_ThawExpiry, *logv1.Command_ExtendSession:
		name, c, err = operatorCommandFrom(of)
	default:
		name, c, err = clusterCommandFrom(of)
	}
	if name == "" {
		return nil, errors.New("it is empty")
	}
	if err == nil {
		err = check(c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// clusterCommandFrom returns the command about the cluster as a whole, and its name; "" when there is none.
func clusterCommandFrom(of *logv1.Command) (name string, c session.Command, err error) {
	switch m := of.GetCommand().(type) {
	case *logv1.Command_ForgetRequests:
		name = "forget_requests"
		c, err = session.ForgetRequests{UpToIndex: m.ForgetRequests.GetUpToIndex()}, noUnknownFields(m.ForgetRequests)
	case *logv1.Command_Configure:
		name = "configure"
		c, err = configureFrom(m.Configure)
	case *logv1.Command_SetCapacity:
		name = "set_capacity"
		c, err = session.SetCapacity{Capacity: session.Capacity{
			MaxSessions: m.SetCapacity.GetMaxSessions(), MaxBytes: m.SetCapacity.GetMaxStateBytes(),
		}}, noUnknownFields(m.SetCapacity)
	}
	return name, c, err
}

func openFrom(m *logv1.OpenSession) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	node, err := nodeFrom("node", m.GetNode())
	if err != nil {
		return nil, err
	}
	labels, err := labelsFrom(m.GetLabels())
	if err != nil {
		return nil, err
	}
	request, err := requestIDFrom(m.GetRequestId())
	if err != nil {
		return nil, err
	}
	return session.OpenSession{
		Node: node, MS: m.GetMs(), Timeout: unpackTimeout(m.GetTimeoutMs()), Labels: labels, RequestID: request,
		Instance: m.GetInstance(),
	}, nil
}

func moveFrom(m *logv1.MoveSession) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	owner, err := nodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	return session.MoveSession{
		ID: session.ID(m.GetId()), NewOwner: owner, Instance: m.GetInstance(), Attempt: m.GetAttempt(),
		Named: m.GetNamed(), NamedLocal: m.GetNamedLocal(),
	}, nil
}

func movesFrom(m *logv1.MoveSessions) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	owner, err := nodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	n := len(m.GetIds())
	switch {
	case len(m.GetAttempts()) != n:
		return nil, outOfRange("attempts", fmt.Sprintf("as many as ids, %d", n))
	case len(m.GetNamed()) != n:
		return nil, outOfRange("named", fmt.Sprintf("as many as ids, %d", n))
	}
	c := session.MoveSessions{NewOwner: owner, Instance: m.GetInstance(), Sessions: make([]session.Moving, n)}
	for i, id := range m.GetIds() {
		c.Sessions[i] = session.Moving{ID: session.ID(id), Attempt: m.GetAttempts()[i], Named: m.GetNamed()[i]}
	}
	return c, nil
}

func closeFrom(m *logv1.CloseSessions) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	cause, err := causeFrom(m.GetCause())
	if err != nil {
		return nil, err
	}
	c := session.CloseSessions{
		Term: m.GetTerm(), Cause: cause, Credited: unpackCredited(m.GetCreditedMs()), MS: m.GetMs(),
		Sessions: make([]session.Closing, len(m.GetSessions())), By: m.GetBy(), Why: m.GetWhy(),
	}
	for i, s := range m.GetSessions() {
		if err := noUnknownFields(s); err != nil {
			return nil, fmt.Errorf("session %d: %w", i, err)
		}
		c.Sessions[i] = session.Closing{
			ID: session.ID(s.GetId()), Attachment: s.GetAttachment(),
			LastTouchAge: unpackAge(s.GetLastTouchAgeMsPlus_1()),
			Late:         unpackTimeout(s.GetLateMs()), Credit: unpackTimeout(s.GetCreditMs()),
			Silent: unpackTimeout(s.GetSilentMs()),
		}
	}
	return c, nil
}

func configureFrom(m *logv1.Configure) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	key, err := keyFrom(m.GetClusterKey())
	if err != nil {
		return nil, err
	}
	limits, err := limitsFrom(m.GetLimits())
	if err != nil {
		return nil, err
	}
	return session.Configure{Key: key, Nonce: m.GetNonce(), Level: m.GetLevel(), Limits: limits}, nil
}

func upgradeFrom(m *logv1.UpgradeSession) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	labels, err := labelsFrom(m.GetLabels())
	if err != nil {
		return nil, err
	}
	return session.UpgradeSession{
		ID: session.ID(m.GetId()), Timeout: unpackTimeout(m.GetTimeoutMs()), Labels: labels, MS: m.GetMs(),
		Instance: m.GetInstance(), Attempt: m.GetAttempt(), Since: m.GetSinceIndex(),
	}, nil
}

func claimFrom(m *logv1.ClaimIDs) (session.Command, error) {
	if err := noUnknownFields(m); err != nil {
		return nil, err
	}
	node, err := nodeFrom("node", m.GetNode())
	if err != nil {
		return nil, err
	}
	return session.ClaimIDs{Node: node, MS: m.GetMs(), Count: m.GetCount()}, nil
}

func nodeFrom(field string, v uint32) (session.Node, error) {
	if v > math.MaxUint8 || !session.Node(v).Valid() {
		return 0, outOfRange(field, "1 to 254")
	}
	return session.Node(v), nil
}

const causes = "closed, expired or killed"

func causeFrom(c logv1.Cause) (session.Cause, error) {
	if c != logv1.Cause_CAUSE_CLOSED && c != logv1.Cause_CAUSE_EXPIRED && c != logv1.Cause_CAUSE_KILLED {
		return 0, outOfRange("cause", causes)
	}
	return session.Cause(c), nil
}

func labelsFrom(m []*logv1.Label) (session.Labels, error) {
	if len(m) == 0 {
		return nil, nil
	}
	labels := make(session.Labels, len(m))
	for i, l := range m {
		if err := noUnknownFields(l); err != nil {
			return nil, fmt.Errorf("label %d: %w", i, err)
		}
		labels[i] = session.Label{Key: l.GetKey(), Value: l.GetValue()}
	}
	return labels, labels.Check()
}

func requestIDFrom(b []byte) (session.RequestID, error) {
	var id session.RequestID
	if len(b) != len(id) {
		return id, outOfRange("request_id", fmt.Sprintf("%d bytes", len(id)))
	}
	return session.RequestID(b), nil
}
