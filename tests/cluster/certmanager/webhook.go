package main

import (
	"context"
	"crypto/tls"
	"os"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/cert-manager/cert-manager/internal/apis/config/shared"
	upstream "github.com/cert-manager/cert-manager/internal/webhook"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/admission"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

const leafDuration = 7 * 24 * time.Hour // upstream's default

// webhook validates cert-manager's objects, with a CA of its own that the cainjector publishes.
//
// Upstream's server listens on all addresses. So this takes from it what it serves, and serves that on loopback.
func webhook(ctx context.Context) error {
	settings, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	settings.KubeConfig = os.Getenv("KUBECONFIG")
	settings.TLSConfig.Dynamic = shared.DynamicServingConfig{
		SecretNamespace: *namespace,
		SecretName:      "cert-manager-webhook-ca",
		DNSNames:        []string{"localhost"},
		LeafDuration:    leafDuration,
	}
	parts, err := upstream.NewCertManagerWebhookServer(logf.FromContext(ctx), *settings)
	if err != nil {
		return err
	}
	certificates := func(config *tls.Config) { config.GetCertificate = parts.CertificateSource.GetCertificate }
	manager, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{
		Scheme:  parts.ResourceScheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host:    "127.0.0.1",
			Port:    *port,
			TLSOpts: []func(*tls.Config){certificates},
		}),
	})
	if err != nil {
		return err
	}
	if err := manager.Add(parts.CertificateSource); err != nil {
		return err
	}
	server := manager.GetWebhookServer()
	server.Register("/mutate", admission.NewCustomMutationWebhook(parts.MutationWebhook))
	server.Register("/validate", admission.NewCustomValidationWebhook(manager.GetScheme(), parts.ValidationWebhook))
	return manager.Start(ctx)
}
