package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Files are the paths of PEM files. An empty path is no file.
type Files struct {
	// Cert has this side's certificate, followed by intermediate ones. Key has its private key.
	Cert, Key string
	// CA has the CAs that sign the certificates of servers and nodes. Without it a client trusts its system's CAs.
	CA string
	// ClientCA has the CAs that sign the certificates of callers; empty is CA.
	ClientCA string
}

// maxFile bounds one file, in bytes.
const maxFile = 1 << 20

// Material is the content of a process's files. It is immutable.
type Material struct {
	// Pair is this side's certificate with its key; nil for none.
	Pair *tls.Certificate
	// Roots are the CAs of servers and nodes; nil for the system's. ClientRoots are the CAs of callers.
	Roots, ClientRoots *x509.CertPool
	// roots and clientRoots are the same CAs.
	roots, clientRoots []*x509.Certificate
}

// contents are the bytes of files, in the order of the fields of [Files].
type contents [4][]byte

func (c contents) equal(other contents) bool {
	for i := range c {
		if !bytes.Equal(c[i], other[i]) {
			return false
		}
	}
	return true
}

func (f Files) paths() [4]string { return [4]string{f.Cert, f.Key, f.CA, f.ClientCA} }

// read reads the files.
func (f Files) read() (contents, error) {
	var c contents
	for i, path := range f.paths() {
		if path == "" {
			continue
		}
		var err error
		if c[i], err = readFile(path); err != nil {
			return contents{}, err
		}
	}
	return c, nil
}

func readFile(path string) (b []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no PEM file of certificates", path, maxFile)
	case len(bytes.TrimSpace(b)) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return b, nil
}

// parse makes the material from the contents of the files.
func (f Files) parse(c contents) (*Material, error) {
	m := &Material{}
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(c[0], c[1])
		if err != nil {
			return nil, fmt.Errorf("%s and %s are no pair of certificate and key: %w", f.Cert, f.Key, err)
		}
		m.Pair = &pair
	}
	var err error
	if f.CA != "" {
		if m.Roots, m.roots, err = pool(f.CA, c[2]); err != nil {
			return nil, err
		}
	}
	m.ClientRoots, m.clientRoots = m.Roots, m.roots
	if f.ClientCA != "" {
		m.ClientRoots, m.clientRoots, err = pool(f.ClientCA, c[3])
	}
	return m, err
}

// beginsBlock is the beginning of each block of a PEM file.
const beginsBlock = "-----BEGIN "

// Certificates returns the certificates of a PEM file. A damaged or truncated block is an error, although readers of
// PEM may skip it: otherwise a file that is being written would look like a file with fewer CAs.
func Certificates(b []byte) (all []*x509.Certificate, err error) {
	begun := bytes.Count(b, []byte(beginsBlock))
	for whole := 0; ; whole++ {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			if whole < begun {
				return nil, fmt.Errorf("%d of its %d blocks cannot be read: they are damaged or cut short, or do not begin and "+
					"end with lines of their own", begun-whole, begun)
			}
			return all, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

func pool(path string, b []byte) (*x509.CertPool, []*x509.Certificate, error) {
	all, err := Certificates(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s holds no certificate of a CA", path)
	}
	p := x509.NewCertPool()
	for _, one := range all {
		p.AddCert(one)
	}
	return p, all, nil
}

// verify checks a chain of certificates, the owner's first, at the time now.
func verify(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}

// chain parses the certificates of the own pair.
func (m *Material) chain() ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for _, der := range m.Pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Trusted returns an error unless a CA of this material signed the own certificate for servers and for clients, and the
// certificate is valid now. Nodes use one certificate for both.
func (m *Material) Trusted(now time.Time) error {
	all, err := m.chain()
	if err != nil {
		return err
	}
	if err = verify(all, m.Roots, x509.ExtKeyUsageServerAuth, now); err != nil {
		return err
	}
	return verify(all, m.Roots, x509.ExtKeyUsageClientAuth, now)
}

// leaf returns the own certificate; nil for none.
func (m *Material) leaf() *x509.Certificate {
	if m.Pair == nil {
		return nil
	}
	return m.Pair.Leaf
}

// expires returns the end of the first certificate to expire; zero for none.
func expires(all ...*x509.Certificate) (first time.Time) {
	for _, c := range all {
		if c != nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	return first
}
