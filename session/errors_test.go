package session

import (
	"errors"
	"testing"
)

// The text of a FieldError is a sentence, whatever kind of limit the field has.
func TestFieldErrorIsASentence(t *testing.T) {
	for _, tt := range []struct{ field, limit, want string }{
		{"timeout", "positive; it is clamped to 4s to 40s", "timeout must be positive; it is clamped to 4s to 40s"},
		{"token", Missing, "token is missing"},
		{"session_id", "not 0", "session_id must not be 0"},
		{"pid", "not negative", "pid must not be negative"},
		{"owner", "1 to 254, 0 for any", "owner must be 1 to 254, 0 for any"},
		{"chroot", "no slash at the end", "chroot must have no slash at the end"},
		{"labels", "must have sorted, distinct keys", "labels must have sorted, distinct keys"},
	} {
		err := error(&FieldError{Field: tt.field, Limit: tt.limit})
		if got := err.Error(); got != tt.want || !errors.Is(err, ErrInvalid) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
