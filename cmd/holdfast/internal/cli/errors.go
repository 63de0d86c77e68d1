package cli

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/client"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitUnreachable = 3
)

// UsageError is a mistake in the command line.
type UsageError struct{ err error }

// Usage returns a [UsageError]; the format is that of [fmt.Errorf].
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (e UsageError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.err }

// ExitError ends the command with the exit code of a program that the command ran. [Main] prints nothing about it.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// hintError is an error with the next step for the user.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

// WithHint adds what the user can do next, a sentence, to an error.
func WithHint(err error, hint string) error { return hintError{err, hint} }

// JoinNodes returns the outcome of a request to several nodes, with one error each. The cluster is unreachable only
// when all nodes are: a node that refused has answered, so its refusal comes before the silence of others.
func JoinNodes(errs []error) error {
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	refused := slices.DeleteFunc(slices.Clone(failed), func(err error) bool {
		return errors.Is(err, client.ErrUnreachable)
	})
	switch {
	case len(failed) == 0:
		return nil
	case len(failed) < len(errs):
		return errors.New("not every node answered")
	case len(refused) > 0:
		return errors.Join(refused...)
	default:
		return errors.Join(failed...)
	}
}
