package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// The keys of the door load, each with what it is for.
func TestDashboard_Door(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, minimal+"dashboard: {addr: \"0.0.0.0:8443\", token_env: THE_TOKEN, queues: write, base_path: /a/night-shift, "+
		"tls: {cert_file: tls/own.crt, key_file: /etc/own.key}}\n")
	want := Dashboard{
		Addr: "0.0.0.0:8443", TokenEnv: "THE_TOKEN", Queues: QueuesWrite, BasePath: "/a/night-shift",
		TLS: TLS{CertFile: filepath.Join("tls", "own.crt"), KeyFile: "/etc/own.key"},
	}
	if cfg.Dashboard != want {
		t.Errorf("%+v\nwant %+v", cfg.Dashboard, want)
	}
	cfg, err := Parse("/etc/nightshift/n.yaml", []byte(minimal+"dashboard: {tls: {cert_file: own.crt, key_file: own.key}}\n"), env)
	if err != nil || cfg.Dashboard.TLS != (TLS{"/etc/nightshift/own.crt", "/etc/nightshift/own.key"}) {
		t.Errorf("relative files: %+v, %v", cfg.Dashboard.TLS, err)
	}
}

// A token that is named must be there, and is not printed where it is not.
func TestDashboard_Token(t *testing.T) {
	t.Parallel()
	d := Dashboard{TokenEnv: "THE_TOKEN"}
	token, err := d.Token(func(name string) (string, bool) { return " " + canary + " of " + name + "\n", true })
	if token != canary+" of THE_TOKEN" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
	for _, value := range []string{"", " \n"} {
		_, err := d.Token(func(string) (string, bool) { return value, value != "" })
		if err == nil || !strings.Contains(err.Error(), "THE_TOKEN") || !strings.Contains(err.Error(), "dashboard.token_env") {
			t.Errorf("%q: error %v", value, err)
		}
	}
	if token, err := (Dashboard{}).Token(func(string) (string, bool) { return canary, true }); token != "" || err != nil {
		t.Errorf("none named: %q, %v", token, err)
	}
}

// Workers of different machines keep their certificates where they like.
func TestHash_LeavesOutCertificates(t *testing.T) {
	t.Parallel()
	one := mustParse(t, minimal+"dashboard: {tls: {cert_file: a, key_file: b}}\n")
	if two := mustParse(t, minimal); one.Hash() != two.Hash() {
		t.Error("the hash depends on where a certificate stands")
	}
}
