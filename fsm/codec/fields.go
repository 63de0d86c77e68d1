package codec

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
)

// MaxClockMS bounds the clocks of entries and snapshots: 2^43 ms are 278 years.
const MaxClockMS = 1<<43 - 1

// Texts of limits that entries and snapshots share.
const (
	MSLimit = "0 to 2^40 - 1 milliseconds since 2026-01-01 UTC"
	Causes  = "closed, expired or killed"
)

// ClockFrom returns the log clock of the field clock_ms.
func ClockFrom(ms uint64) (time.Duration, error) {
	if ms > MaxClockMS {
		return 0, OutOfRange("clock_ms", "below 2^43")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

var errUnknown = errors.New("unknown to this program")

// NoUnknownFields returns an error when m has a field of a newer release. A node that ignored the field would reach
// another state than the nodes that know the field.
func NoUnknownFields(m proto.Message) error {
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

// LimitsProto encodes the limits of the tree.
func LimitsProto(l tree.Limits) *logv1.TreeLimits {
	return &logv1.TreeLimits{
		MaxEphemerals: uint64(l.Ephemerals), MaxChildren: uint64(l.Children), OpenQuotas: l.OpenQuotas,
		MaxBytes: uint64(l.Bytes), //nolint:gosec // positive
	}
}

// LimitsFrom decodes and checks the limits of the tree.
func LimitsFrom(m *logv1.TreeLimits) (tree.Limits, error) {
	if m == nil {
		return tree.Limits{}, OutOfRange("limits", "those of the tree")
	}
	if err := NoUnknownFields(m); err != nil {
		return tree.Limits{}, fmt.Errorf("limits: %w", err)
	}
	l := tree.Limits{
		Ephemerals: int(min(m.GetMaxEphemerals(), math.MaxInt32)), Children: int(min(m.GetMaxChildren(), math.MaxInt32)),
		OpenQuotas: m.GetOpenQuotas(), Bytes: int64(min(m.GetMaxBytes(), math.MaxInt64)),
	}
	return l, l.Check()
}

// SpecProto returns the fields of s in a message. A new field of the spec is a new result, so the compiler finds each
// message that needs it.
func SpecProto(s *session.Spec) (timeoutMS uint32, labels []*logv1.Label) {
	return uint32(s.Timeout.Milliseconds()), LabelsProto(s.Labels)
}

// SpecFrom decodes the spec in a message, and checks all of it but the timeout.
func SpecFrom(m interface {
	GetTimeoutMs() uint32
	GetLabels() []*logv1.Label
},
) (session.Spec, error) {
	labels, err := LabelsFrom(m.GetLabels())
	return session.Spec{Timeout: DurationOf(m.GetTimeoutMs()), Labels: labels}, err
}

// LabelsProto encodes labels.
func LabelsProto(labels session.Labels) []*logv1.Label {
	if len(labels) == 0 {
		return nil
	}
	m := make([]*logv1.Label, len(labels))
	for i, l := range labels {
		m[i] = &logv1.Label{Key: l.Key, Value: l.Value}
	}
	return m
}

// LabelsFrom decodes and checks labels.
func LabelsFrom(m []*logv1.Label) (session.Labels, error) {
	if len(m) == 0 {
		return nil, nil
	}
	labels := make(session.Labels, len(m))
	for i, l := range m {
		if err := NoUnknownFields(l); err != nil {
			return nil, fmt.Errorf("label %d: %w", i, err)
		}
		labels[i] = session.Label{Key: l.GetKey(), Value: l.GetValue()}
	}
	return labels, labels.Check()
}

// KeyBytes encodes a cluster key. It returns nil for the zero key: the cluster has no key yet.
func KeyBytes(k session.Key) []byte {
	if k == (session.Key{}) {
		return nil
	}
	return k[:]
}

// KeyFrom decodes a cluster key.
func KeyFrom(b []byte) (session.Key, error) {
	var k session.Key
	if len(b) == 0 {
		return k, nil
	}
	if copy(k[:], b) != len(b) || len(b) != len(k) || k == (session.Key{}) {
		return k, OutOfRange("cluster_key", fmt.Sprintf("absent or %d bytes that are not all zero", len(k)))
	}
	return k, nil
}

// NodeFrom decodes the node number in the named field.
func NodeFrom(field string, v uint32) (session.Node, error) {
	if v > math.MaxUint8 || !session.Node(v).Valid() {
		return 0, OutOfRange(field, "1 to 254")
	}
	return session.Node(v), nil
}

// CauseFrom decodes the cause of a session's end.
func CauseFrom(c logv1.Cause) (session.Cause, error) {
	if c != logv1.Cause_CAUSE_CLOSED && c != logv1.Cause_CAUSE_EXPIRED && c != logv1.Cause_CAUSE_KILLED {
		return 0, OutOfRange("cause", Causes)
	}
	return session.Cause(c), nil
}

// RequestIDFrom decodes the request id of an open.
func RequestIDFrom(b []byte) (session.RequestID, error) {
	var id session.RequestID
	if len(b) != len(id) {
		return id, OutOfRange("request_id", fmt.Sprintf("%d bytes", len(id)))
	}
	return session.RequestID(b), nil
}

// CheckOperator checks the name and the reason of an operator.
func CheckOperator(by, why string) error {
	switch {
	case len(by) > session.MaxClientName || !utf8.ValidString(by):
		return OutOfRange("by", fmt.Sprintf("at most %d bytes of UTF-8", session.MaxClientName))
	case len(why) > session.MaxWhy || !utf8.ValidString(why):
		return OutOfRange("why", fmt.Sprintf("at most %d bytes of UTF-8", session.MaxWhy))
	}
	return nil
}

// CheckCapacity checks the bounds of the state (O4 state limits).
func CheckCapacity(c session.Capacity) error {
	switch {
	case c.MaxSessions == 0 || c.MaxSessions > session.MaxCapacitySessions:
		return OutOfRange("max_sessions", fmt.Sprintf("1 to %d", session.MaxCapacitySessions))
	case c.MaxBytes < session.MinCapacityBytes || c.MaxBytes > session.MaxCapacityBytes:
		limit := fmt.Sprintf("%d to %d", session.MinCapacityBytes, session.MaxCapacityBytes)
		return OutOfRange("max_state_bytes", limit)
	}
	return nil
}

// CheckLevel refuses a feature level that this program does not know (W8 feature level).
func CheckLevel(level uint32) error {
	if level > session.FeatureLevel {
		return fmt.Errorf("the cluster has feature level %d, and this program knows levels up to %d", level, session.FeatureLevel)
	}
	return nil
}

// OutOfRange returns the error of a field outside its limit.
func OutOfRange(field, limit string) error { return &session.FieldError{Field: field, Limit: limit} }
