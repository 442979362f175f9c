package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// ownProvider is the provider's name in the answers of text rungs.
const ownProvider = "nightshift"

func (c *checker) provider(p Provider) {
	at := path{"providers", p.Name}
	c.name(at, "a provider's", p.Name)
	if p.Name == ownProvider {
		c.report(at, "the name nightshift is taken: it answers for text rungs", "rename it")
	}
	c.baseURL(at.child("base_url"), p.BaseURL)
	if p.BaseURL == "" && c.needsBaseURL(p.Name) && !c.problems.under(at.child("base_url").String()) {
		c.report(at, "base_url is missing", "say where it is, as in http://127.0.0.1:11434/v1")
	}
	if p.APIKeyEnv != "" && p.APIKeyFile != "" {
		c.report(at.child("api_key_file"), "api_key_env is set too", "delete one of the two")
	}
	c.headers(at.child("headers"), p.Headers)
	if p.Breaker != nil {
		c.breaker(*p.Breaker, at.child("breaker"))
	}
	if !c.keyless && c.needsKey(p.Name) {
		c.keyEnv(at.child("api_key_env"), p.APIKeyEnv, exportKey)
		c.keyFile(at.child("api_key_file"), p.APIKeyFile)
	}
}

// needsBaseURL says whether a model of the provider has no address of its own.
func (c *checker) needsBaseURL(provider string) bool {
	return c.anyModel(func(m Model) bool { return m.Provider == provider && m.BaseURL == "" })
}

// needsKey says whether a model uses the provider's key.
func (c *checker) needsKey(provider string) bool {
	return c.anyModel(func(m Model) bool {
		return m.Provider == provider && !c.isSet(path{"models", m.Key, "api_key_env"})
	})
}

func (c *checker) anyModel(is func(Model) bool) bool {
	for _, m := range c.cfg.Models {
		if is(m) {
			return true
		}
	}
	return false
}

// baseURL checks an address that the file gives. It quotes nothing of it.
func (c *checker) baseURL(p path, text string) {
	if text == "" || !c.isSet(p) {
		return
	}
	const remedy = "write it as in https://api.openai.com/v1"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.report(p, "not an http or https address", remedy)
	case u.User != nil:
		c.report(p, "a key or password does not belong in the address", "name it with api_key_env")
	case u.RawQuery != "" || u.Fragment != "":
		c.report(p, "the address may not have a part after ? or #", remedy)
	default:
		c.endpointInAddress(p, strings.TrimSuffix(u.Path, "/"))
	}
}

// endpointInAddress reports an endpoint at the end of an address.
func (c *checker) endpointInAddress(p path, address string) {
	for _, endpoint := range []string{"/chat/completions", "/messages"} {
		if strings.HasSuffix(address, endpoint) {
			c.report(p, "the address ends in "+endpoint+", which is added to it", "delete that part")
		}
	}
}

// secretHeaders carry keys, which are only ever named; ownHeaders are set by
// Nightshift. Both in lower case.
var (
	secretHeaders = []string{"authorization", "proxy-authorization", "api-key", "x-api-key", "cookie"}
	ownHeaders    = []string{"content-type", "content-length", "host", "idempotency-key", "accept", "transfer-encoding", "connection"}
	headerName    = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// headers checks names and values. It never quotes a value.
func (c *checker) headers(p path, headers Headers) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at, lower := p.child(name), strings.ToLower(name)
		switch {
		case !headerName.MatchString(name):
			c.report(at, "not the name of a header", "")
		case slices.Contains(secretHeaders, lower):
			c.report(at, "a key does not belong in the file", "name it with api_key_env")
		case slices.Contains(ownHeaders, lower):
			c.report(at, "this header is set by nightshift", "delete it")
		case strings.ContainsFunc(headers[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			c.report(at, "the value holds a control character", "write it in one line")
		}
	}
}

// envName is how environment variables are commonly named. Another text may be
// a key that was pasted here, and is not repeated.
var envName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// exportKey is what to do about a key that is not set.
const exportKey = "export it, or name a file with api_key_file"

// keyEnv checks that a variable is set; remedy is what to do where it is not.
func (c *checker) keyEnv(p path, name, remedy string) {
	if name == "" || !c.isSet(p) {
		return
	}
	if value, ok := c.env(name); ok && strings.TrimSpace(value) != "" {
		return
	}
	if !envName.MatchString(name) {
		c.report(p, "no environment variable has this name", "write the name of a variable, not the key itself")
		return
	}
	c.report(p, fmt.Sprintf("the environment variable %s is not set", name), remedy)
}

func (c *checker) keyFile(p path, file string) {
	if file == "" || !c.isSet(p) || c.problems.under(p.String()) {
		return
	}
	if _, err := readKeyFile(file); err != nil {
		c.report(p, oneLine(err), "write the key into it, alone")
	}
}

func (c *checker) model(m Model) {
	p := path{"models", m.Key}
	_, name, slash := strings.Cut(m.Key, "/")
	_, known := c.cfg.Providers[m.Provider]
	providers := slices.Collect(maps.Keys(c.cfg.Providers))
	switch {
	case !slash || name == "" || m.Provider == "":
		c.report(p, "a model's key is provider/name", "write it as in openai/gpt-4o")
	case !modelName.MatchString(m.Key):
		c.report(p, "a model's key may hold letters, digits and . _ - : / @ + only, at most 200", "rename it; what is sent is set by name")
	case !known:
		c.report(p, fmt.Sprintf("no provider %s", quoted(m.Provider)), DidYouMean(m.Provider, providers))
	}
	if m.Region != "" {
		c.name(p.child("region"), "a region's", m.Region)
	}
	c.baseURL(p.child("base_url"), m.BaseURL)
	if !c.keyless {
		c.keyEnv(p.child("api_key_env"), m.APIKeyEnv, exportKey)
	}
	if m.FirstToken > m.Timeout {
		c.pair(p, "first_token", "timeout", duration(m.FirstToken), duration(m.Timeout))
	}
	if m.Idle > m.Timeout {
		c.pair(p, "idle", "timeout", duration(m.Idle), duration(m.Timeout))
	}
	c.probe(p.child("probe"), m.Probe)
	c.breaker(m.Breaker, p.child("breaker"))
}
