package session_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdfast/session"
)

func TestNegotiate(t *testing.T) {
	limits := session.DefaultLimits()
	for asked, want := range map[time.Duration]time.Duration{
		1:                                      4 * time.Second,
		4 * time.Second:                        4 * time.Second,
		4*time.Second + 1:                      4 * time.Second,
		10*time.Second + 1500*time.Microsecond: 10*time.Second + time.Millisecond,
		40 * time.Second:                       40 * time.Second,
		1<<63 - 1:                              40 * time.Second,
	} {
		if got, err := limits.Negotiate(asked); got != want || err != nil {
			t.Errorf("Negotiate(%v) = %v, %v, want %v", asked, got, err, want)
		}
	}
	for _, asked := range []time.Duration{0, -1, -1 << 63} {
		_, err := limits.Negotiate(asked)
		field, ok := errors.AsType[*session.FieldError](err)
		if !ok || field.Field != "timeout" || !strings.Contains(field.Limit, "4s to 40s") {
			t.Errorf("Negotiate(%v): %v, want a FieldError for timeout with both limits", asked, err)
		}
	}
}

func TestLabels(t *testing.T) {
	many := make(map[string]string)
	for i := range session.MaxLabels + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, c := range map[string]struct {
		labels map[string]string
		ok     bool
	}{
		"none":                  {nil, true},
		"longest":               {map[string]string{strings.Repeat("k", 64): strings.Repeat("v", 256)}, true},
		"empty value":           {map[string]string{"k": ""}, true},
		"empty key":             {map[string]string{"": "v"}, false},
		"long key":              {map[string]string{strings.Repeat("k", 65): ""}, false},
		"long value":            {map[string]string{"k": strings.Repeat("v", 257)}, false},
		"key that is no text":   {map[string]string{"\xff": ""}, false},
		"value that is no text": {map[string]string{"k": "\xff"}, false},
		"too many":              {many, false},
	} {
		_, err := session.NewLabels(c.labels)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (session.Labels{{Key: "b"}, {Key: "a"}}).Check(); err == nil {
		t.Error("Check accepts labels that are not sorted")
	}
	if err := (session.Labels{{Key: "a"}, {Key: "a"}}).Check(); err == nil {
		t.Error("Check accepts a key twice")
	}
	labels, _ := session.NewLabels(map[string]string{"zone": "b", "app": "x"})
	if v, ok := labels.Value("zone"); v != "b" || !ok || labels[0].Key != "app" {
		t.Errorf("Value(zone) of %v = %q, %v", labels, v, ok)
	}
	if _, ok := labels.Value("none"); ok {
		t.Error("Value finds a key that the labels do not have")
	}
}

// Refusing 100,000 labels costs no more than counting them.
func TestTooManyLabelsAreNotSorted(t *testing.T) {
	many := make(map[string]string)
	for i := range 100_000 {
		many[fmt.Sprint(i)] = ""
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := session.NewLabels(many)
	runtime.ReadMemStats(&after)
	if cost := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, session.ErrInvalid) || cost > 100_000 {
		t.Errorf("%v, for %d bytes", err, cost)
	}
}
