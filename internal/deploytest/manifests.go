package deploytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"nightshift/config"
	"nightshift/internal/app"
)

// object is what the checks read of a Kubernetes object; that it is a valid one,
// testdata/manifests has seen.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string // of a ConfigMap
	Spec     struct {
		Selector             selected
		Template             struct{ Spec pod }
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
		Metrics              []struct{ External external }
		ScaleTargetRef       struct{ Kind, Name string }
	}
}

// selected is a selector, of labels alone in a Service.
type selected map[string]any

type pod struct {
	TerminationGracePeriodSeconds int64
	SecurityContext               struct{ RunAsNonRoot bool }
	Containers                    []container
	Volumes                       []struct {
		ConfigMap struct{ Name string }
	}
}

type container struct {
	Image string
	Args  []string
	Ports []struct {
		Name          string
		ContainerPort int
	}
	Env []struct {
		Name, Value string
		ValueFrom   struct{ SecretKeyRef struct{ Name, Key string } }
	}
	ReadinessProbe, LivenessProbe *probe
	Resources                     struct{ Requests, Limits map[string]string }
	SecurityContext               struct {
		ReadOnlyRootFilesystem   bool
		AllowPrivilegeEscalation *bool
		Capabilities             struct{ Drop []string }
	}
	VolumeMounts []struct{ Name, MountPath string }
}

type probe struct {
	HTTPGet *struct{ Path, Port string }
}

type external struct {
	Metric struct {
		Name     string
		Selector struct{ MatchLabels map[string]string }
	}
}

// manifests checks the objects of a kustomization, as testdata/manifests prints
// them, against the configuration among them.
func manifests(list []byte) (problems []string) {
	var all []object
	if err := json.Unmarshal(list, &all); err != nil {
		return []string{err.Error()}
	}
	byName := map[string]object{}
	for _, o := range all {
		byName[o.Kind+" "+o.Metadata.Name] = o
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, why := range c.check(o.Spec.Template.Spec) {
				problems = append(problems, o.Metadata.Name+": "+why)
			}
		}
	}
	cfg, where, err := mountedIn(all)
	if err != nil {
		return append(problems, err.Error())
	}
	for _, name := range []string{"worker", "dashboard"} {
		o, ok := byName["Deployment "+name]
		if !ok || len(o.Spec.Template.Spec.Containers) != 1 {
			problems = append(problems, "there is no Deployment "+name+" of one container")
			continue
		}
		for _, why := range fits(name, o.Spec.Template.Spec, cfg, where) {
			problems = append(problems, name+": "+why)
		}
	}
	if r, ok := byName["StatefulSet redis"]; ok {
		problems = append(problems, keeps(r)...)
	}
	if h, ok := byName["HorizontalPodAutoscaler worker"]; ok {
		problems = append(problems, scales(h, cfg)...)
	}
	return problems
}

// mountedIn returns the configuration of the objects, and the name of its ConfigMap.
func mountedIn(all []object) (*config.Config, string, error) {
	present := func(key string) (string, bool) {
		if key == config.RedisEnv {
			return "", false
		}
		return "present", true
	}
	for _, o := range all {
		if text, ok := o.Data["nightshift.yaml"]; ok && o.Kind == "ConfigMap" {
			cfg, err := config.Parse("nightshift.yaml", []byte(text), present)
			return cfg, o.Metadata.Name, err
		}
	}
	return nil, "", fmt.Errorf("no ConfigMap has a nightshift.yaml")
}

// check is what holds for every container.
func (c container) check(p pod) (problems []string) {
	if !p.SecurityContext.RunAsNonRoot {
		problems = append(problems, "may run as root")
	}
	s := c.SecurityContext
	if !s.ReadOnlyRootFilesystem {
		problems = append(problems, "can write to its root file system")
	}
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Contains(s.Capabilities.Drop, "ALL") {
		problems = append(problems, "keeps privileges")
	}
	if c.Resources.Requests["cpu"] == "" || c.Resources.Limits["memory"] == "" {
		problems = append(problems, "asks for no CPU, or has no limit of its memory")
	}
	if c.ReadinessProbe == nil || c.LivenessProbe == nil {
		problems = append(problems, "is not probed")
	}
	return problems
}

// fits checks a Deployment of ours against the configuration that it mounts.
func fits(name string, p pod, cfg *config.Config, where string) (problems []string) {
	c := p.Containers[0]
	if !slices.ContainsFunc(p.Volumes, func(v struct{ ConfigMap struct{ Name string } }) bool { return v.ConfigMap.Name == where }) {
		problems = append(problems, "does not mount the configuration")
	}
	addr, secrets := cfg.Metrics.Addr, keys(cfg)
	if name == "dashboard" {
		addr, secrets = cfg.Dashboard.Addr, []string{cfg.Dashboard.TokenEnv}
	}
	var given []string
	redis := false
	for _, e := range c.Env {
		redis = redis || e.Name == config.RedisEnv && strings.HasPrefix(e.Value, "redis")
		if e.ValueFrom.SecretKeyRef.Name != "" {
			given = append(given, e.Name)
		}
	}
	if !redis {
		problems = append(problems, "is told of no Redis")
	}
	for _, s := range secrets {
		if s == "" || !slices.Contains(given, s) {
			problems = append(problems, fmt.Sprintf("has no secret %q", s))
		}
	}
	for path, pr := range map[string]*probe{"/readyz": c.ReadinessProbe, "/healthz": c.LivenessProbe} {
		if pr == nil || pr.HTTPGet == nil || pr.HTTPGet.Path != path || !listens(c, pr.HTTPGet.Port, addr) {
			problems = append(problems, "is not asked for "+path+" where it listens, at "+addr)
		}
	}
	if need := app.StopTime(cfg); name == "worker" && time.Duration(p.TerminationGracePeriodSeconds)*time.Second < need {
		problems = append(problems, fmt.Sprintf("is killed after %ds, but shutting down takes up to %s", p.TerminationGracePeriodSeconds, need))
	}
	slices.Sort(problems)
	return problems
}

// keys are the environment variables with the keys of the configuration.
func keys(cfg *config.Config) []string {
	all := map[string]bool{}
	for _, p := range cfg.Providers {
		all[p.APIKeyEnv] = p.APIKeyEnv != ""
	}
	maps.DeleteFunc(all, func(_ string, used bool) bool { return !used })
	return slices.Sorted(maps.Keys(all))
}

// listens says whether a port of the container is that of an address beyond loopback.
func listens(c container, port, addr string) bool {
	for _, p := range c.Ports {
		if p.Name == port && addr == fmt.Sprintf(":%d", p.ContainerPort) {
			return true
		}
	}
	return false
}

// keeps checks that Redis keeps what it is given.
func keeps(o object) (problems []string) {
	c := o.Spec.Template.Spec.Containers[0]
	args := strings.Join(c.Args, " ")
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction", "--maxmemory "} {
		if !strings.Contains(args, want) {
			problems = append(problems, "redis: runs without "+want)
		}
	}
	for _, m := range c.VolumeMounts {
		for _, v := range o.Spec.VolumeClaimTemplates {
			if m.Name == v.Metadata.Name && m.MountPath == "/data" {
				return problems
			}
		}
	}
	return append(problems, "redis: has no volume of its own at /data")
}

// scales checks that the autoscaler goes by a metric that exists, of a queue that
// is configured.
func scales(o object, cfg *config.Config) (problems []string) {
	if o.Spec.ScaleTargetRef.Kind+o.Spec.ScaleTargetRef.Name != "Deploymentworker" || len(o.Spec.Metrics) == 0 {
		problems = append(problems, "autoscaler: scales no workers")
	}
	for _, m := range o.Spec.Metrics {
		matchers := []string{}
		for label, value := range m.External.Metric.Selector.MatchLabels {
			matchers = append(matchers, fmt.Sprintf("%s=%q", label, value))
		}
		for _, why := range query(m.External.Metric.Name + "{" + strings.Join(matchers, ",") + "}") {
			problems = append(problems, "autoscaler: "+why)
		}
		queue := m.External.Metric.Selector.MatchLabels["queue"]
		if _, ok := cfg.Queue(cmp.Or(queue, "-")); !ok {
			problems = append(problems, fmt.Sprintf("autoscaler: there is no queue %q", queue))
		}
	}
	return problems
}
