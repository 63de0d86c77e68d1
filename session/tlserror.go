package session

// TLSError is [ErrTLS] with the other side, the fault and a remedy.
type TLSError struct {
	// With is the other side: an address.
	With string
	// Fault is the fault, and Advice its remedy, which names the side and its setting. Advice may be empty.
	Fault, Advice string
	// Plain says that the other side does not use TLS.
	Plain bool
	// Err is the cause, nil when Fault is sufficient.
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
