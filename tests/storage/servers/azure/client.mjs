// Azure's own client: reads one JSON command per line, and prints one JSON answer per line.
import { createInterface } from "node:readline";
import { BlobServiceClient, StorageSharedKeyCredential } from "@azure/storage-blob";

const [url, account, key] = process.argv.slice(2);
const service = new BlobServiceClient(url, new StorageSharedKeyCredential(account, key));

const commands = {
  async container({ container, access }) {
    await service.getContainerClient(container).createIfNotExists({ access });
  },
  async put({ container, name, body, md5, metadata }) {
    const data = Buffer.from(body, "base64");
    const blobHTTPHeaders = md5 ? { blobContentMD5: Buffer.from(md5, "base64") } : {};
    const blob = service.getContainerClient(container).getBlockBlobClient(name);
    await blob.upload(data, data.length, { blobHTTPHeaders, metadata });
  },
  async blocks({ container, name, body }) {
    const blob = service.getContainerClient(container).getBlockBlobClient(name);
    await blob.uploadData(Buffer.from(body, "base64"), { blockSize: 1 << 20, maxSingleShotSize: 1 });
  },
  async many({ container, folder, count }) {
    const client = service.getContainerClient(container);
    for (let start = 0; start < count; start += 50) {
      const indexes = Array.from({ length: Math.min(50, count - start) }, (_, i) => start + i);
      await Promise.all(indexes.map((index) => {
        const text = String(index);
        const name = `${folder}/${text.padStart(4, "0")}.bin`;
        return client.getBlockBlobClient(name).upload(text, text.length);
      }));
    }
  },
  async sas({ container, name, permissions, minutes }) {
    const client = service.getContainerClient(container);
    const target = name ? client.getBlobClient(name) : client;
    const expiresOn = new Date(Date.now() + minutes * 60_000);
    const { BlobSASPermissions, ContainerSASPermissions } = await import("@azure/storage-blob");
    const Kind = name ? BlobSASPermissions : ContainerSASPermissions;
    const signed = await target.generateSasUrl({ permissions: Kind.parse(permissions), expiresOn });
    return new URL(signed).search;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...words } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ answer: (await commands[command](words)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
