#include "backend.hpp"

#include "cluster.hpp"
#include "host.hpp"
#include "node.hpp"
#include "sentinel_locator.hpp"

namespace nginx_module {

namespace {

/// One Redis, or whoever is the master among several.
class SingleNode final : public Backend {
  public:
    SingleNode(const BackendConf &conf, ngx_log_t *log)
        : Backend(conf),
          node_(conf, group_, log, [&](Locator::Owner &owner) -> std::unique_ptr<Locator> {
              if (conf.mode == Mode::sentinel) {
                  return std::make_unique<SentinelLocator>(owner, conf, log);
              }
              return std::make_unique<Host>(owner, conf.resolver, conf.servers.front());
          }) {}

    std::variant<redis_client::Call *, redis_client::Failure>
    ask(std::span<redis_client::Charge> charges, redis_client::CheckListener &listener) override {
        return node_.ask(charges, listener);
    }
    void abandon(redis_client::Call &check) override { node_.abandon(check); }
    void read_now(const redis_client::Call & /*check*/) override { node_.read_now(); }
    void hand_over(redis_client::Call &check, std::span<redis_client::Charge> charges,
                   redis_client::CheckListener &listener) override {
        node_.hand_over(check, charges, listener);
    }
    void refund(std::span<redis_client::Charge> charges) override { node_.refund(charges); }
    void release(redis_client::Slot &slot) override { node_.release(slot); }

  private:
    Node node_;
};

std::unique_ptr<Backend> make_backend(const BackendConf &conf, ngx_log_t *log) {
    if (conf.mode == Mode::cluster) {
        return std::make_unique<Cluster>(conf, log);
    }
    return std::make_unique<SingleNode>(conf, log);
}

} // namespace

Backend::Backend(const BackendConf &conf) : group_(conf.session) {}

Backend &backend_of(BackendConf &conf) {
    if (conf.worker == nullptr) {
        conf.worker = make_backend(conf, ngx_cycle->log);
    }
    return *conf.worker;
}

} // namespace nginx_module
