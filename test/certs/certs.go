// Package certs makes certificates for tests. They are valid in the bubbles of [testing/synctest] too, whose clock
// starts in 2000.
package certs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

// CA signs certificates into a directory of its own.
type CA struct {
	t  testing.TB
	by *issue.Issued
	// Dir is the directory. File is that of the CA's certificate.
	Dir, File string
	made      int
}

// Always is a time in which everything happens.
func Always() issue.Span {
	return issue.Span{
		From: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// New returns a CA.
func New(tb testing.TB) *CA {
	tb.Helper()
	by, err := issue.NewCA("test", Always())
	if err != nil {
		tb.Fatal(err)
	}
	c := &CA{t: tb, by: by, Dir: tb.TempDir()}
	c.File = filepath.Join(c.Dir, "ca.pem")
	Write(tb, c.File, by.CertificatePEM())
	return c
}

// PEM returns the certificate of the CA as a file has it.
func (c *CA) PEM() []byte { return c.by.CertificatePEM() }

// Node returns the files of a node of a cluster, with hosts beside loopback.
func (c *CA) Node(cluster string, node session.Node, hosts ...string) secure.Files {
	c.t.Helper()
	return c.Issue(secure.NodeName(cluster, node), Always(), append(hosts, "127.0.0.1", "localhost")...)
}

// Client returns the files of a client of a cluster.
func (c *CA) Client(cluster, name string) secure.Files {
	c.t.Helper()
	return c.Issue(secure.Name{Cluster: cluster, Kind: secure.KindClient, Name: name}, Always())
}

// Issue returns the files of a certificate.
func (c *CA) Issue(name secure.Name, valid issue.Span, hosts ...string) secure.Files {
	c.t.Helper()
	c.made++
	stem := filepath.Join(c.Dir, fmt.Sprintf("%d", c.made))
	f := secure.Files{Cert: stem + ".pem", Key: stem + ".key", CA: c.File}
	c.Replace(f, name, valid, hosts...)
	return f
}

// Replace writes another certificate and key into files.
func (c *CA) Replace(f secure.Files, name secure.Name, valid issue.Span, hosts ...string) {
	c.t.Helper()
	made, err := c.by.Issue(name, hosts, valid)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := made.KeyPEM()
	if err != nil {
		c.t.Fatal(err)
	}
	Write(c.t, f.Cert, made.CertificatePEM())
	Write(c.t, f.Key, key)
}

// T returns the test.
func (c *CA) T() testing.TB { return c.t }

// Write writes a file.
func Write(tb testing.TB, path string, contents ...[]byte) {
	tb.Helper()
	var all []byte
	for _, b := range contents {
		all = append(all, b...)
	}
	if err := os.WriteFile(path, all, 0o600); err != nil {
		tb.Fatal(err)
	}
}
