package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

// specified is any message to or from a client with the fields of a [session.Spec].
type specified interface {
	GetTimeout() *durationpb.Duration
	GetLabels() map[string]string
}

// SpecProto returns the fields of s in a message to or from a client. A new field of the spec is a new result, so the
// compiler finds each message that needs it.
func SpecProto(s *session.Spec) (timeout *durationpb.Duration, labels map[string]string) {
	return durationpb.New(s.Timeout), labelMap(s.Labels)
}

// specFrom returns the spec in p, whose name in errors is message; it is empty for a request itself.
func specFrom(message string, p specified) (s session.Spec, err error) {
	if s.Timeout, err = DurationFrom("timeout", p.GetTimeout(), Positive); err == nil {
		s.Labels, err = session.NewLabels(p.GetLabels())
	}
	if err != nil && message != "" {
		err = Within(message, err)
	}
	return s, err
}

// peerSpecProto and peerSpecFrom are as SpecProto and specFrom, for messages between nodes.
func peerSpecProto(s *session.Spec) (timeout *durationpb.Duration, labels []*peerv1.Label) {
	return durationpb.New(s.Timeout), labelsProto(s.Labels)
}

func peerSpecFrom(p interface {
	GetTimeout() *durationpb.Duration
	GetLabels() []*peerv1.Label
},
) (s session.Spec, err error) {
	if s.Timeout, err = DurationFrom("timeout", p.GetTimeout(), Positive); err == nil {
		s.Labels, err = labelsFrom(p.GetLabels())
	}
	return s, err
}

// labelMap returns labels as a map, nil for none.
func labelMap(labels session.Labels) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	all := make(map[string]string, len(labels))
	for _, l := range labels {
		all[l.Key] = l.Value
	}
	return all
}

func labelsProto(labels session.Labels) []*peerv1.Label {
	var all []*peerv1.Label
	for _, l := range labels {
		all = append(all, &peerv1.Label{Key: l.Key, Value: l.Value})
	}
	return all
}

func labelsFrom(all []*peerv1.Label) (session.Labels, error) {
	var labels session.Labels
	for _, l := range all {
		labels = append(labels, session.Label{Key: l.GetKey(), Value: l.GetValue()})
	}
	return labels, labels.Check()
}
