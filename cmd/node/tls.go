package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// tlsFiles are the files with which a command calls a node that speaks TLS, as those of the command line client.
type tlsFiles struct{ ca, cert, key, serverName string }

func (f *tlsFiles) register(cmd *cobra.Command, environ []string) {
	variables := map[string]string{}
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		variables[name] = value
	}
	for _, one := range []struct {
		to                   *string
		name, help, variable string
	}{
		{&f.ca, "cacert", "speak TLS with a node whose certificate these CAs sign, a PEM file", "HOLDFAST_CACERT"},
		{&f.cert, "cert", "speak TLS with this certificate of the caller, a PEM file", "HOLDFAST_CERT"},
		{&f.key, "key", "private key of --cert, a PEM file", "HOLDFAST_KEY"},
		{
			&f.serverName, "server-name", "name that the node's certificate must have (default: the host of --address)",
			"HOLDFAST_SERVER_NAME",
		},
	} {
		cmd.Flags().StringVar(one.to, one.name, variables[one.variable], one.help+" (environment: "+one.variable+")")
	}
}

// load returns the scheme of the node's address, and how to speak TLS if that is https.
func (f *tlsFiles) load() (scheme string, secured *tls.Config, err error) {
	if *f == (tlsFiles{}) {
		return "http", nil, nil
	}
	secured = &tls.Config{ServerName: f.serverName, MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		b, err := os.ReadFile(f.ca)
		if err != nil {
			return "", nil, err
		}
		if secured.RootCAs = x509.NewCertPool(); !secured.RootCAs.AppendCertsFromPEM(b) {
			return "", nil, fmt.Errorf("--cacert %s holds no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return "", nil, fmt.Errorf("--cert %q and --key %q: %w", f.cert, f.key, err)
		}
		secured.Certificates = []tls.Certificate{pair}
	}
	return "https", secured, nil
}

// explain explains an error of TLS, nil for any other.
func (*tlsFiles) explain(address string, err error) error {
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return fmt.Errorf("%s speaks without TLS: http_tls is off there; leave --cacert, --cert and --key away, or set "+
			"http_tls", address)
	}
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the certificate of %s is not accepted: %w: check --cacert and --server-name", address,
			unverified.Err)
	}
	return nil
}
