// Command manifests builds a kustomization, decodes each object of it strictly as
// the type of the Kubernetes API that it says it is, and prints them as JSON.
//
// It is a module of its own, so that the types of Kubernetes are no dependency of
// Nightshift; the tests of internal/deploytest run it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// types makes an empty object of each kind that the manifests may have.
var types = map[string]func() any{
	"apps/v1 Deployment":                     func() any { return &appsv1.Deployment{} },
	"apps/v1 StatefulSet":                    func() any { return &appsv1.StatefulSet{} },
	"autoscaling/v2 HorizontalPodAutoscaler": func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
	"networking.k8s.io/v1 NetworkPolicy":     func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":          func() any { return &policyv1.PodDisruptionBudget{} },
	"v1 ConfigMap":                           func() any { return &corev1.ConfigMap{} },
	"v1 Service":                             func() any { return &corev1.Service{} },
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests: error:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return fmt.Errorf("build %s: %w", dir, err)
	}
	var all []any
	for _, r := range built.Resources() {
		kind := r.GetApiVersion() + " " + r.GetKind()
		text, err := r.AsYAML()
		if err != nil {
			return fmt.Errorf("write %s %s: %w", kind, r.GetName(), err)
		}
		empty, ok := types[kind]
		if !ok {
			return fmt.Errorf("%s %s: not a kind that is known here", kind, r.GetName())
		}
		object := empty()
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			return fmt.Errorf("%s %s: %w", kind, r.GetName(), err)
		}
		all = append(all, object)
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}
