package config

import (
	"fmt"
	"net/url"
	"slices"
)

// receivers checks who is told of events. It quotes nothing of a URL.
func (c *checker) receivers() {
	for i, r := range c.cfg.Notify {
		p := path{"notify"}.index(i)
		c.receiverURL(p, r)
		c.receiverEvents(p.child("events"), r.Events)
		if r.Format == "slack" && r.SecretEnv != "" {
			c.report(p.child("secret_env"), "a webhook of Slack has no secret beside its URL", "delete it, and name the URL with url_env")
		}
		if !c.keyless {
			c.keyEnv(p.child("url_env"), r.URLEnv, "export it")
			c.keyEnv(p.child("secret_env"), r.SecretEnv, "export it, or leave secret_env out: messages are not signed then")
		}
	}
}

func (c *checker) receiverURL(p path, r Receiver) {
	at := p.child("url")
	if c.problems.under(at.String()) || c.problems.under(p.child("url_env").String()) {
		return
	}
	u, err := url.Parse(string(r.URL))
	switch {
	case r.URL == "" && r.URLEnv == "":
		c.report(p, "it says not where to", "add url_env, the name of an environment variable with the URL, or url")
	case r.URL == "":
	case r.URLEnv != "":
		c.report(at, "url_env is set too", "delete one of the two")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.report(at, "not an http or https address", "write it as in https://example.com/hook")
	}
}

func (c *checker) receiverEvents(p path, events []string) {
	for i, e := range events {
		switch {
		case !slices.Contains(Events, e):
			c.report(p.index(i), quoted(e)+" is no event", DidYouMean(e, Events))
		case slices.Index(events, e) < i:
			c.report(p.index(i), fmt.Sprintf("%s stands twice", e), "delete one of the two")
		}
	}
}
