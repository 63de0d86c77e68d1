// Package issue makes certificates for tests and small sites: a CA, and certificates of nodes, clients and
// administrators in the form of package secure.
package issue

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/transport/secure"
)

// Issued is a certificate with its key.
type Issued struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// Span is the time for which a certificate is valid.
type Span struct{ From, To time.Time }

// NewCA returns a CA with a self-signed certificate.
func NewCA(name string, valid Span) (*Issued, error) {
	return sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, valid, nil)
}

// Issue returns a certificate signed by the CA. A node's certificate has hosts, names or IP addresses, at which clients
// reach it. Errors are [session.FieldError], except errors of the keys.
func (ca *Issued) Issue(name secure.Name, hosts []string, valid Span) (*Issued, error) {
	if err := name.Check(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name.Name},
		URIs:        []*url.URL{name.URI()},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if name.Kind == secure.KindNode {
		template.Subject.CommonName = "node " + name.Name
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range hosts {
		if err := CheckHost(h); err != nil {
			return nil, err
		}
		if ip := address(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, h)
	}
	return sign(template, valid, ca)
}

// Bounds of DNS (RFC 1035), in bytes.
const (
	maxDNSName  = 253
	maxDNSLabel = 63
)

// CheckHost returns a [session.FieldError] unless h is a host that a client can find in a certificate: an IP address,
// in brackets or not, or a DNS name. A star may stand for the first label of a name with several labels. Underscores
// are permitted, because clients accept them and names in private networks have them.
func CheckHost(h string) error {
	if address(h) != nil {
		return nil
	}
	labels := strings.Split(strings.TrimPrefix(h, "*."), ".")
	last := labels[len(labels)-1]
	mistyped := len(labels) > 1 && strings.Trim(last, "0123456789") == "" // no top-level domain is a number
	if mistyped || len(h) > maxDNSName || slices.ContainsFunc(labels, notLabel) {
		return &session.FieldError{Field: "host", Limit: "a DNS name, such as n1.example.com, or an IP address, with " +
			"neither scheme nor port"}
	}
	return nil
}

// labelLetters are the permitted characters of a label. By RFC 952 names with an underscore are no host names, but they
// are in use.
const labelLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// notLabel reports whether s cannot be a label of a DNS name.
func notLabel(s string) bool {
	return s == "" || len(s) > maxDNSLabel || s[0] == '-' || s[len(s)-1] == '-' ||
		strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(labelLetters, r) })
}

// address returns the IP address in h; nil for none.
func address(h string) net.IP {
	if inner, ok := strings.CutPrefix(h, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return nil // brackets are only for IPv6
		}
		h = inner
	}
	return net.ParseIP(h)
}

// sign signs a certificate with the key of ca, or with its own if ca is nil.
func sign(template *x509.Certificate, valid Span, ca *Issued) (*Issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter = valid.From, valid.To
	parent, by := template, crypto.Signer(key)
	if ca != nil {
		if valid.To.After(ca.Certificate.NotAfter) {
			template.NotAfter = ca.Certificate.NotAfter // no client would accept it for longer
		}
		parent, by = ca.Certificate, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	return &Issued{c, key}, err
}

// CertificatePEM returns the certificate as PEM.
func (ca *Issued) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw})
}

// KeyPEM returns the private key as PEM.
func (ca *Issued) KeyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ReadCA returns the CA from the contents of two files.
func ReadCA(certificate, key []byte) (*Issued, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok:
		return nil, errors.New("the key cannot sign")
	case !pair.Leaf.IsCA:
		return nil, fmt.Errorf("the certificate of %q is no CA's", pair.Leaf.Subject)
	}
	return &Issued{pair.Leaf, signer}, nil
}
