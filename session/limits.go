package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Limits of requests, entries and messages, and times.
const (
	// MaxLabels is the number of labels of a session.
	MaxLabels = 32
	// MaxLabelKey and MaxLabelValue are lengths in bytes.
	MaxLabelKey   = 64
	MaxLabelValue = 256
	// MaxTouchBatch is the number of sessions that one touch request names.
	MaxTouchBatch = 10_000
	// MaxCloseBatch is the number of sessions that one [CloseSessions] ends.
	MaxCloseBatch = 1024
	// MaxForget is about how many request ids one [ForgetRequests] of a leader forgets.
	MaxForget = 4096
	// MaxBatch is the number of requests in one message of a client, and the number of sessions that one
	// [MoveSessions] moves.
	MaxBatch = 1024
	// MaxPeerBatch is the number of requests or replies in one message between nodes.
	MaxPeerBatch = 1024
	// MaxPage is the number of sessions on one page of a list.
	MaxPage = 1000
	// BusyRetryAfter is the time that a node asks clients to wait when the number of running requests is at its bound.
	// Some of them end within about a round of the network and a commit.
	BusyRetryAfter = 50 * time.Millisecond
	// MaxRetryAfter is the longest time that a node asks a client to wait, and the longest that a client accepts. With
	// the default limits of timeouts, few sessions would survive a longer wait.
	MaxRetryAfter = 30 * time.Second
	// MaxClientName is the length of a client's name, in bytes.
	MaxClientName = 128
	// MaxWhy is the length of the reason that an operator gives for an act, in bytes.
	MaxWhy = 256
	// MaxTimeout bounds the maximum timeout that a cluster can be configured with.
	MaxTimeout = 24 * time.Hour
	// MinInterval and MaxInterval bound the interval at which rounds begin (R1 rounds).
	MinInterval = time.Millisecond
	MaxInterval = time.Minute
)

// Limits clamps timeouts.
type Limits struct {
	Min, Max time.Duration
}

// DefaultLimits returns the default limits of a cluster, which are ZooKeeper's (H-17).
func DefaultLimits() Limits { return Limits{Min: 4 * time.Second, Max: 40 * time.Second} }

// Negotiate returns a requested timeout clamped to l, in whole milliseconds. A timeout that is not positive is a
// [FieldError].
func (l Limits) Negotiate(requested time.Duration) (time.Duration, error) {
	if requested <= 0 {
		limit := fmt.Sprintf("positive; it is clamped to %v to %v", l.Min, l.Max)
		return 0, &FieldError{Field: "timeout", Limit: limit}
	}
	return min(max(requested, l.Min), l.Max).Truncate(time.Millisecond), nil
}

// Label is one label of a session.
type Label struct{ Key, Value string }

// Labels are sorted by key; keys are distinct.
type Labels []Label

// NewLabels returns m sorted and checked. The error is a [FieldError].
func NewLabels(m map[string]string) (Labels, error) {
	switch {
	case len(m) == 0:
		return nil, nil
	case len(m) > MaxLabels: // before sorting: one message can hold 100,000 labels
		return nil, tooManyLabels()
	}
	labels := make(Labels, 0, len(m))
	for k, v := range m {
		labels = append(labels, Label{k, v})
	}
	slices.SortFunc(labels, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
	return labels, labels.Check()
}

// Check returns a [FieldError] when a label is out of range.
func (l Labels) Check() error {
	if len(l) > MaxLabels {
		return tooManyLabels()
	}
	for i, label := range l {
		switch {
		case label.Key == "" || len(label.Key) > MaxLabelKey || !utf8.ValidString(label.Key):
			return labelError("must have keys of 1 to %d bytes of UTF-8", MaxLabelKey)
		case len(label.Value) > MaxLabelValue || !utf8.ValidString(label.Value):
			return labelError("must have values of at most %d bytes of UTF-8", MaxLabelValue)
		case i > 0 && l[i-1].Key >= label.Key:
			return labelError("must have sorted, distinct keys")
		}
	}
	return nil
}

func tooManyLabels() error { return labelError("at most %d of them", MaxLabels) }

func labelError(format string, args ...any) error {
	return &FieldError{Field: "labels", Limit: fmt.Sprintf(format, args...)}
}

// Value returns the value of key.
func (l Labels) Value(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(l, key, func(a Label, k string) int { return cmp.Compare(a.Key, k) })
	if !ok {
		return "", false
	}
	return l[i].Value, true
}
