package certificates

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// full returns a certificate with a value in every field.
func full() *Certificate {
	return &Certificate{
		ID: 1<<56 | 2, Number: 1, Term: 3, Index: 4, CreditedMS: 5, MS: 6, Clock: 7 * time.Millisecond, AgeMS: 8, Owner: 9,
		Cause: session.CauseKilled,
		Left:  &session.Left{Instance: 10, Applied: 12, Floor: 11, Ephemerals: 13, Will: tree.WillRefused},
		Story: &session.Story{
			Spec:     session.Spec{Timeout: 14 * time.Millisecond, Labels: session.Labels{{Key: "a", Value: "b"}}},
			OpenedAt: session.TimeOfMS(15),
			Late:     16 * time.Millisecond, Credit: 17 * time.Millisecond, Silent: 18 * time.Millisecond, By: "ops", Why: "test",
		},
	}
}

// eachField calls f for every field of a struct and of the structs in it, with the field's name.
func eachField(v reflect.Value, f func(name string, field reflect.Value)) {
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		inner := reflect.Indirect(field)
		if inner.Kind() == reflect.Struct && inner.Type() != reflect.TypeFor[time.Time]() {
			eachField(inner, func(part string, field reflect.Value) { f(name+"."+part, field) })
			continue
		}
		f(name, field)
	}
}

// I6: snapshots keep every field of a certificate, and the digest has it. The test names a field that one of them
// leaves out.
func TestI6EveryFieldIsKept(t *testing.T) {
	decoded, err := Decode(full().Encode())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	eachField(reflect.ValueOf(decoded).Elem(), func(name string, field reflect.Value) { got[name] = field.Interface() })
	eachField(reflect.ValueOf(full()).Elem(), func(name string, field reflect.Value) {
		if field.IsZero() {
			t.Errorf("%s: give it a value in the sample", name)
		}
		if !reflect.DeepEqual(got[name], field.Interface()) {
			t.Errorf("%s: snapshots do not have it: got %v, want %v", name, got[name], field)
		}
		c := full()
		eachField(reflect.ValueOf(c).Elem(), func(other string, field reflect.Value) {
			if other == name {
				field.SetZero()
			}
		})
		if bytes.Equal(c.Canonical(nil), full().Canonical(nil)) {
			t.Errorf("%s: the digest does not have it", name)
		}
	})
}

// Readers see every field of a certificate but its number and the log clock.
func TestReadersSeeEveryField(t *testing.T) {
	shown := full().Session()
	eachField(reflect.ValueOf(&shown).Elem(), func(name string, field reflect.Value) {
		if field.IsZero() {
			t.Errorf("%s is zero", name)
		}
	})
}
