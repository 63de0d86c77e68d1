package tree

import (
	"errors"
	"fmt"
	"time"
)

// ErrInvalid matches every [FieldError].
var ErrInvalid = errors.New("invalid argument")

// FieldError is an [ErrInvalid] that names the wrong field and says what the value must be.
type FieldError struct {
	// Field is the field's name, such as "then[3].path".
	Field string
	// Why says what is wrong with the value, and the limit.
	Why string
	// Err is the cause if it has a type of its own: a [PathError].
	Err error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Why }

// Is makes e an [ErrInvalid].
func (*FieldError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// wrong returns a FieldError with a formatted reason.
func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, Why: fmt.Sprintf(format, args...)}
}

// inField wraps an error in a FieldError for the field; nil stays nil.
func inField(field string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := errors.AsType[*FieldError](err); ok {
		return &FieldError{Field: field + "." + inner.Field, Why: inner.Why, Err: inner.Err}
	}
	return &FieldError{Field: field, Why: err.Error(), Err: err}
}

// checkMillis refuses a duration that is not a whole number of milliseconds from minimum to maximum.
func checkMillis(field string, d, minimum, maximum time.Duration) error {
	switch {
	case d < minimum || d > maximum:
		return wrong(field, "is %v: must be %v to %v", d, minimum, maximum)
	case d%time.Millisecond != 0:
		return wrong(field, "is %v: must be a whole number of milliseconds", d)
	}
	return nil
}
