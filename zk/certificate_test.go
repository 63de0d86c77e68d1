package zk_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"io"
	"math/big"
	"path/filepath"
	"testing"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/certs"
	"holdfast/transport/secure"
	"holdfast/zk/jute"
)

// strangers returns a certificate that is its own CA, with a subject as a company's directory has it.
func strangers(t *testing.T) tls.Certificate {
	t.Helper()
	type nameSET []pkix.AttributeTypeAndValue
	var parts []nameSET
	domain := asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	for _, one := range []pkix.AttributeTypeAndValue{
		{Type: domain, Value: "org"},
		{Type: domain, Value: "example"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 11}, Value: "a"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 11}, Value: "b"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "web"},
	} {
		parts = append(parts, nameSET{one})
	}
	subject := must[[]byte](t)(asn1.Marshal(parts))
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), RawSubject: subject, IsCA: true, BasicConstraintsValid: true,
		NotBefore: certs.Always().From, NotAfter: certs.Always().To,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestCertificatesAreNamedAsInZooKeeper: a client's certificate has ZooKeeper's name in access lists, so that lists
// that were written there grant the same here.
func TestCertificatesAreNamedAsInZooKeeper(t *testing.T) {
	ca, own := certs.New(t), strangers(t)
	clients := filepath.Join(ca.Dir, "clients.pem")
	certs.Write(t, clients, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), ca.PEM())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	files := map[session.Node]secure.Files{}
	for node := session.Node(1); node <= 3; node++ {
		files[node] = ca.Node(config.Default().ClusterID, node, "n1", "n2", "n3")
	}
	runWith(t, func(cfg *config.Config) {
		f := files[cfg.Node]
		cfg.TLS = config.TLS{
			Nodes: secure.Require, Clients: secure.Require, ClientAuth: secure.AuthRequire,
			Cert: f.Cert, Key: f.Key, CA: f.CA, ClientCA: clients,
		}
	}, func(c *world) {
		t := c.T
		n := tls.Client(knock(c, "n1:7404"), &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "n1", Certificates: []tls.Certificate{own},
		})
		if _, err := n.Write(connecting(0, nil)); err != nil {
			t.Fatal(err)
		}
		connected(t, n)
		asks(t, n, 1, jute.WhoAmI, nothing)
		head := make([]byte, 4)
		must[int](t)(io.ReadFull(n, head))
		answer := make([]byte, binary.BigEndian.Uint32(head))
		must[int](t)(io.ReadFull(n, answer))
		if want := "CN=web,OU=b,OU=a,DC=example,DC=org"; !bytes.Contains(answer, []byte(want)) {
			t.Errorf("the client is %q, want %q", answer[16:], want)
		}
	})
}
