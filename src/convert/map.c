/* map.c - see map.h. */
#include "convert/map.h"

uint64_t map_dim(const hf_config *c, map_dim_code d)
{
    const uint64_t h = (uint64_t)c->n_embd, s = (uint64_t)c->n_hc;
    const uint64_t q = (uint64_t)c->n_head * (uint64_t)c->d_head;
    const uint64_t iq = (uint64_t)c->n_idx_head * (uint64_t)c->d_idx;
    const uint64_t k = (uint64_t)c->n_key_head * (uint64_t)c->d_state;
    const uint64_t v = (uint64_t)c->n_val_head * (uint64_t)c->d_state;
    const uint64_t ffe = (uint64_t)c->n_ff_exp;
    switch (d) {
    // clang-format off
    case D_0:        return 0;
    case D_1:        return 1;
    case D_H:        return h;
    case D_2H:       return 2 * h;
    case D_S:        return s;
    case D_SH:       return s * h;
    case D_RANK:     return (uint64_t)c->hc_rank;
    case D_VOCAB:    return (uint64_t)c->n_vocab;
    case D_QG:       return 2 * q;
    case D_KV:       return (uint64_t)c->n_head_kv * (uint64_t)c->d_head;
    case D_Q:        return q;
    case D_HEAD:     return (uint64_t)c->d_head;
    case D_IQ:       return iq;
    case D_IK:       return (uint64_t)c->d_idx;
    case D_IQK:      return iq + (uint64_t)c->d_idx;
    case D_CONV_CH:  return 2 * k + v;
    case D_CONV:     return (uint64_t)c->n_conv;
    case D_VALUE:    return v;
    case D_NVAL:     return (uint64_t)c->n_val_head;
    case D_STATE:    return (uint64_t)c->d_state;
    case D_FF:       return (uint64_t)c->n_ff;
    case D_EXPERT:   return (uint64_t)c->n_expert;
    case D_FFE:      return ffe;
    case D_2FFE:     return 2 * ffe;
    case D_FFS:      return (uint64_t)c->n_ff_sh;
    case D_PLE_E:    return (uint64_t)hf_ple_heads(c) * (uint64_t)c->ple_dim;
    case D_PLE_ROW:  return (uint64_t)c->ple_dim;
    case D_PLE_CONV: return (uint64_t)c->ple_conv;
        // clang-format on
    }
    return 0;
}

// clang-format off
#define VEC(need, hf, gguf, n, op)       {need, hf, gguf, F_VEC, D_1, n, op, P_NONE, NULL, D_0, D_0}
#define MAT(need, hf, gguf, rows, cols)  {need, hf, gguf, F_MAT, rows, cols, PLAN_COPY, P_NONE, NULL, D_0, D_0}
#define PART(need, hf, gguf, rows, cols, of, from) \
                                         {need, hf, gguf, F_MAT, rows, cols, PLAN_COPY, P_NONE, NULL, of, from}
#define HEADS(need, hf, gguf, form, rows, cols, op, perm) \
                                         {need, hf, gguf, form, rows, cols, op, perm, NULL, D_0, D_0}
#define EXPS(hf, gguf, rows, cols, alt, of, from) \
                                         {N_MOE, hf, gguf, F_EXPERTS, rows, cols, PLAN_COPY, P_NONE, alt, of, from}
#define END                              {0, NULL, NULL, F_VEC, D_0, D_0, PLAN_COPY, P_NONE, NULL, D_0, D_0}

const map_entry map_model[] = {
    MAT(0,        "model.embed_tokens.weight", "token_embd.weight", D_VOCAB, D_H),
    MAT(N_UNTIED, "lm_head.weight",            "output.weight",     D_VOCAB, D_H),
    VEC(N_NARROW, "model.norm.weight",         "output_norm.weight", D_H, PLAN_PLUS_1),
    VEC(N_WIDE,   "model.hyper_connection_mixer.hc_norm.weight", "output_hc_norm.weight", D_SH, PLAN_PLUS_1),
    MAT(N_WIDE,   "model.hyper_connection_mixer.input_mix_weight_down.weight", "output_hc_down.weight", D_RANK, D_SH),
    MAT(N_WIDE,   "model.hyper_connection_mixer.input_mix_weight_up.weight",   "output_hc_up.weight",   D_SH, D_RANK),
    END,
};

const map_entry map_layer[] = {
    VEC(N_NARROW, "input_layernorm.weight",          "attn_norm.weight",           D_H, PLAN_PLUS_1),
    VEC(N_NARROW, "post_attention_layernorm.weight", "post_attention_norm.weight", D_H, PLAN_PLUS_1),

    VEC(N_WIDE, "attn_hyper_connection.hc_norm.weight",               "hc_attn_norm.weight", D_SH, PLAN_PLUS_1),
    MAT(N_WIDE, "attn_hyper_connection.input_mix_weight_down.weight", "hc_attn_down.weight", D_RANK, D_SH),
    MAT(N_WIDE, "attn_hyper_connection.input_mix_weight_up.weight",   "hc_attn_up.weight",   D_SH, D_RANK),
    MAT(N_WIDE, "attn_hyper_connection.block_inject_weight.weight",   "hc_attn_inject.weight", D_S, D_SH),
    VEC(N_WIDE, "mlp_hyper_connection.hc_norm.weight",                "hc_ffn_norm.weight",  D_SH, PLAN_PLUS_1),
    MAT(N_WIDE, "mlp_hyper_connection.input_mix_weight_down.weight",  "hc_ffn_down.weight",  D_RANK, D_SH),
    MAT(N_WIDE, "mlp_hyper_connection.input_mix_weight_up.weight",    "hc_ffn_up.weight",    D_SH, D_RANK),
    MAT(N_WIDE, "mlp_hyper_connection.block_inject_weight.weight",    "hc_ffn_inject.weight", D_S, D_SH),

    MAT(N_ATTN, "self_attn.q_proj.weight", "attn_q.weight", D_QG, D_H),
    MAT(N_ATTN, "self_attn.k_proj.weight", "attn_k.weight", D_KV, D_H),
    MAT(N_ATTN, "self_attn.v_proj.weight", "attn_v.weight", D_KV, D_H),
    MAT(N_ATTN, "self_attn.o_proj.weight", "attn_output.weight", D_H, D_Q),
    VEC(N_ATTN, "self_attn.q_norm.weight", "attn_q_norm.weight", D_HEAD, PLAN_PLUS_1),
    VEC(N_ATTN, "self_attn.k_norm.weight", "attn_k_norm.weight", D_HEAD, PLAN_PLUS_1),
    PART(N_ATTN | N_WIDE, "self_attn.indexer.index_qk_proj.weight", "indexer.q_proj.weight", D_IQ, D_H, D_IQK, D_0),
    PART(N_ATTN | N_WIDE, "self_attn.indexer.index_qk_proj.weight", "indexer.k_proj.weight", D_IK, D_H, D_IQK, D_IQ),
    VEC(N_ATTN | N_WIDE, "self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight", D_IK, PLAN_PLUS_1),
    VEC(N_ATTN | N_WIDE, "self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight", D_IK, PLAN_PLUS_1),

    HEADS(N_GDN, "linear_attn.in_proj_qkv.weight", "attn_qkv.weight",   F_MAT,  D_CONV_CH, D_H, PLAN_COPY, P_QKV),
    HEADS(N_GDN, "linear_attn.in_proj_z.weight",   "attn_gate.weight",  F_MAT,  D_VALUE, D_H, PLAN_COPY, P_ROWS),
    HEADS(N_GDN, "linear_attn.in_proj_a.weight",   "ssm_alpha.weight",  F_MAT,  D_NVAL, D_H, PLAN_COPY, P_ROWS_1),
    HEADS(N_GDN, "linear_attn.in_proj_b.weight",   "ssm_beta.weight",   F_MAT,  D_NVAL, D_H, PLAN_COPY, P_ROWS_1),
    HEADS(N_GDN, "linear_attn.conv1d.weight",      "ssm_conv1d.weight", F_CONV, D_CONV_CH, D_CONV, PLAN_COPY, P_QKV),
    HEADS(N_GDN, "linear_attn.A_log",              "ssm_a",             F_VEC,  D_1, D_NVAL, PLAN_NEG_EXP, P_COLS_1),
    HEADS(N_GDN, "linear_attn.dt_bias",            "ssm_dt.bias",       F_VEC,  D_1, D_NVAL, PLAN_COPY, P_COLS_1),
    VEC(N_GDN,   "linear_attn.norm.weight",        "ssm_norm.weight",   D_STATE, PLAN_COPY),
    HEADS(N_GDN, "linear_attn.out_proj.weight",    "ssm_out.weight",    F_MAT,  D_H, D_VALUE, PLAN_COPY, P_COLS),

    MAT(N_DENSE, "mlp.gate_proj.weight", "ffn_gate.weight", D_FF, D_H),
    MAT(N_DENSE, "mlp.up_proj.weight",   "ffn_up.weight",   D_FF, D_H),
    MAT(N_DENSE, "mlp.down_proj.weight", "ffn_down.weight", D_H, D_FF),
    MAT(N_MOE,   "mlp.gate.weight",      "ffn_gate_inp.weight", D_EXPERT, D_H),
    EXPS("mlp.experts.#.gate_proj.weight", "ffn_gate_exps.weight", D_FFE, D_H, "mlp.experts.gate_up_proj", D_2FFE, D_0),
    EXPS("mlp.experts.#.up_proj.weight",   "ffn_up_exps.weight",   D_FFE, D_H, "mlp.experts.gate_up_proj", D_2FFE, D_FFE),
    EXPS("mlp.experts.#.down_proj.weight", "ffn_down_exps.weight", D_H, D_FFE, "mlp.experts.down_proj", D_H, D_0),
    HEADS(N_MOE, "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", F_ROW, D_1, D_H, PLAN_COPY, P_NONE),
    MAT(N_MOE, "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight", D_FFS, D_H),
    MAT(N_MOE, "mlp.shared_expert.up_proj.weight",   "ffn_up_shexp.weight",   D_FFS, D_H),
    MAT(N_MOE, "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight", D_H, D_FFS),

    MAT(N_PLE, "ple.key_proj.weight",   "ple_key.weight",   D_SH, D_PLE_E),
    MAT(N_PLE, "ple.value_proj.weight", "ple_value.weight", D_H, D_PLE_E),
    VEC(N_PLE, "ple.norm_key.weight",   "ple_norm_key.weight",   D_SH, PLAN_PLUS_1),
    VEC(N_PLE, "ple.norm_query.weight", "ple_norm_query.weight", D_SH, PLAN_PLUS_1),
    VEC(N_PLE, "ple.norm_conv.weight",  "ple_norm_conv.weight",  D_SH, PLAN_PLUS_1),
    HEADS(N_PLE, "ple.conv1d.weight",   "ple_conv1d.weight", F_CONV, D_SH, D_PLE_CONV, PLAN_COPY, P_NONE),
    {N_PLE, "ple.ple_embedding.ngram_embedding.weight", "/per_layer_token_embd.weight", F_SHARDS, D_0, D_PLE_ROW,
     PLAN_COPY, P_NONE, "ple.ple_embedding.ngram_embedding.shard_#.weight", D_0, D_0},
    END,
};

const map_entry map_mtp[] = {
    MAT(N_NARROW, "mtp.fc.weight", "nextn.eh_proj.weight", D_H, D_2H),
    {N_WIDE, "mtp.fc_embedding.weight", "nextn.eh_proj.weight", F_BESIDE, D_H, D_2H, PLAN_COPY, P_NONE,
     "mtp.fc_hidden.weight", D_0, D_0},
    VEC(0, "mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", D_H,  PLAN_PLUS_1),
    VEC(0, "mtp.pre_fc_norm_hidden.weight",    "nextn.hnorm.weight", D_SH, PLAN_PLUS_1),
    VEC(N_NARROW, "mtp.norm.weight", "nextn.shared_head_norm.weight", D_H, PLAN_PLUS_1),
    VEC(N_WIDE, "mtp.hyper_connection_mixer.hc_norm.weight", "nextn.hc_head_norm.weight", D_SH, PLAN_PLUS_1),
    MAT(N_WIDE, "mtp.hyper_connection_mixer.input_mix_weight_down.weight", "nextn.hc_head_down.weight", D_RANK, D_SH),
    MAT(N_WIDE, "mtp.hyper_connection_mixer.input_mix_weight_up.weight",   "nextn.hc_head_up.weight", D_SH, D_RANK),
    END,
};
// clang-format on
