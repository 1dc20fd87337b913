// Package overhead is the Go side of tests/bench/overhead.py: a webhook that does nothing, and clients that create pods.
package overhead

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
)

// Webhook allows every object as it is: what any webhook costs, whatever it does.
func Webhook() {
	address := flag.String("address", "", "host:port to listen on")
	certificate := flag.String("certificate", "", "PEM file")
	key := flag.String("key", "", "PEM file")
	flag.Parse()
	log.Fatal(http.ListenAndServeTLS(*address, *certificate, *key, http.HandlerFunc(allow)))
}

func allow(writer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(writer, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(review) // the caller gave up
}
