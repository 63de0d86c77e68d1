package session

// TLSError is [ErrTLS] with the two sides and what to do.
type TLSError struct {
	// With is the other side: an address.
	With string
	// Fault says what is wrong, and Advice what to do about it: it names the side and its setting. Advice may be empty.
	Fault, Advice string
	// Plain says that the other side speaks without TLS.
	Plain bool
	// Err is the cause, nil when Fault says all.
	Err error
}

func (e *TLSError) Error() string {
	text := "TLS with " + e.With + ": " + e.Fault
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap returns the cause.
func (e *TLSError) Unwrap() error { return e.Err }

// Is makes e an [ErrTLS].
func (*TLSError) Is(target error) bool { return target == ErrTLS }
