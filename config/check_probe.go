package config

import (
	"net/url"
	"strings"
)

// probe checks what is sent or got in place of the short prompt.
func (c *checker) probe(p path, probe Probe) {
	body, get := p.child("body"), p.child("get")
	if len(probe.Body) > 0 && probe.Get != "" {
		c.report(get, "body is set too", "delete one of the two")
	}
	if probe.Get != "" {
		c.healthPath(get, probe.Get)
	}
	if len(probe.Body) == 0 {
		return
	}
	if stream, ok := probe.Body["stream"]; ok && stream != false && stream != nil {
		c.report(body.child("stream"), "a probe is not streamed", "delete it")
	}
	if messages, ok := probe.Body["messages"].([]any); !ok || len(messages) == 0 {
		c.report(body, "a body needs messages", "write it as in body: {messages: [{role: user, content: ping}], max_tokens: 16}")
	}
}

// healthPath checks a path that is got with the provider's key: it must not lead
// to another host.
func (c *checker) healthPath(p path, text string) {
	const remedy = "write it as in /health"
	u, err := url.Parse(text)
	switch {
	case !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//"):
		c.report(p, "a path begins with one /, and starts at the host of base_url", remedy)
	case err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		c.report(p, "not a path", remedy)
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		c.report(p, "the path may not have a part after #", remedy)
	}
}
