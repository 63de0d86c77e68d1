package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"syscall"
)

// TLS alerts about which an operator can do something.
const (
	alertBadCertificate     = 42
	alertUnsupported        = 43
	alertExpired            = 45
	alertUnknownCertificate = 46
	alertUnknownCA          = 48
	alertProtocolVersion    = 70
	alertRequired           = 116
	alertNoProtocol         = 120
)

// alertOf returns the alert that the other side sent; false for any other error. crypto/tls does not export the type of
// alerts.
func alertOf(err error) (code uint8, remote bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" || op.Err == nil {
		return 0, false
	}
	if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
		return uint8(v.Uint()), true
	}
	return 0, false
}

// alertText says what an alert means.
func alertText(code uint8) string {
	switch code {
	case alertRequired:
		return "it requires a certificate, and got none"
	case alertUnknownCA:
		return "it does not know the CA that signed this side's certificate"
	case alertExpired:
		return "this side's certificate has expired, by the other side's clock"
	case alertBadCertificate, alertUnknownCertificate, alertUnsupported:
		return "it does not accept this side's certificate"
	case alertProtocolVersion:
		return "the two sides have no version of TLS in common"
	case alertNoProtocol:
		return "it does not speak what this side wants to speak: it is another port"
	default:
		return tls.AlertError(code).Error()
	}
}

// alertAdvice says what to do about an alert.
func alertAdvice(code uint8) string {
	switch code {
	case alertRequired:
		return "give this side a certificate and its key (--cert and --key; for a node tls_cert and tls_key)"
	case alertUnknownCA:
		return "add the CA to the other side's tls_ca, or for a client to its tls_client_ca"
	case alertBadCertificate, alertUnknownCertificate, alertUnsupported:
		return "the other side's log names both sides and the reason"
	case alertExpired:
		return "renew the certificate, or set the clocks"
	case alertNoProtocol:
		return "clients use 7400, nodes 7401 and 7402, HTTP 7403 unless set otherwise"
	default:
		return ""
	}
}

// ofTLS reports whether TLS is the cause of an error, and not the connection below.
func ofTLS(err error) bool {
	if _, remote := alertOf(err); remote {
		return true
	}
	_, network := errors.AsType[*net.OpError](err)
	return !network && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) &&
		!errors.Is(err, syscall.ECONNRESET)
}
