package session

import "fmt"

// PanicError is the error of a request whose handling panicked: a fault of the program. Clients do not get its text.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
