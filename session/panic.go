package session

import "fmt"

// PanicError is the error of a request whose serving panicked: a fault of the program. Clients are not told its text.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
